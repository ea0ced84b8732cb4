//! What a client sends to the endpoint of metrics.

use std::time::Duration;

use lowtail_serve::{HEAD_BYTES, InMemory, Limits, Site, Source};

use crate::reader::{Most, Target};

/// What is served.
const TEXT: &str = "lowtail_up 1\n# EOF\n";
/// An honest scraper's head.
const HONEST: &[u8] = b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n";
/// Bytes of an answer's head and of a refusal's words, at most; a text comes after them.
const ANSWER_BYTES: usize = 512;
/// All headers that an answer may have.
const HEADERS: [&str; 5] = ["allow", "connection", "content-length", "content-type", "date"];

pub(super) const HTTP: Target = Target {
    name: "http",
    read: http,
    // Heads that are longer than they may be are tried as well.
    bytes_max: 2 * HEAD_BYTES,
    // A runtime, two pipes of 4 KiB, a head and its hundred headers, twice; of what is sent a copy.
    most: Most { held: (128 << 10, 2), taken: (256 << 10, 2) },
    words: &[
        "\r\n",
        "\n",
        "\r\n\r\n",
        ":",
        " ",
        "\0",
        "\u{80}",
        "GET ",
        "HEAD ",
        "POST ",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "/metrics",
        "http://a/metrics",
        "?a=b",
        " HTTP/1.1\r\n",
        " HTTP/1.0\r\n",
        "Host: a\r\n",
        "Connection: keep-alive\r\n",
        "Connection: Upgrade\r\nUpgrade: h2c\r\n",
        "Content-Length: ",
        "18446744073709551616",
        "Transfer-Encoding: chunked\r\n",
        "Expect: 100-continue\r\n",
        "0\r\n\r\n",
    ],
};

struct Fixed;

impl Source for Fixed {
    fn version(&self) -> u64 {
        0
    }

    fn text(&self) -> Result<String, String> {
        Ok(TEXT.to_string())
    }
}

/// There is one whole answer or none, it says no more than it may and to whom it may, and who asks next is served.
fn http(bytes: &[u8]) {
    let site = Site { path: "/metrics", content_type: "text/plain", source: Box::new(Fixed) };
    // Nobody waits here: a connection that lasts until a deadline is one that hangs.
    let hour = Duration::from_secs(3600);
    let limits = Limits { head: hour, stall: hour, whole: hour, ..Limits::default() };
    let server = InMemory::new(site, limits).expect("a server");
    let answer = server.answer(bytes);
    if !answer.is_empty() {
        check(bytes, &answer);
    }
    assert_eq!(check(HONEST, &server.answer(HONEST)), 200);
}

/// Checks that these bytes are one answer to that request, as RFC 9112 has it; its status.
fn check(request: &[u8], answer: &[u8]) -> u16 {
    assert!(answer.len() <= ANSWER_BYTES + TEXT.len(), "{} bytes", answer.len());
    let text = std::str::from_utf8(answer).expect("a text");
    let (head, body) = text.split_once("\r\n\r\n").expect("the end of a head");
    let mut lines = head.split("\r\n");
    let first = lines.next().unwrap_or_default();
    let rest = ["HTTP/1.0 ", "HTTP/1.1 "].iter().find_map(|version| first.strip_prefix(version));
    let (status, reason) =
        rest.and_then(|rest| rest.split_once(' ')).unwrap_or_else(|| panic!("{first:?}"));
    assert!(!reason.is_empty() && printable(reason), "{first:?}");
    assert!(status.len() == 3 && status.bytes().all(|digit| digit.is_ascii_digit()), "{first:?}");
    let mut length = None;
    let mut seen = Vec::new();
    for line in lines {
        let (name, value) = line.split_once(": ").unwrap_or_else(|| panic!("{line:?}"));
        assert!(HEADERS.contains(&name) && !seen.contains(&name) && printable(value), "{line:?}");
        if name == "content-length" {
            length = value.parse().ok();
        }
        seen.push(name);
    }
    let length: usize = length.expect("a length");
    let status: u16 = status.parse().expect("three digits");
    // A head may come after empty lines (RFC 9112, 2.2).
    let began = request.iter().position(|byte| !b"\r\n".contains(byte)).unwrap_or(request.len());
    let asked_for_head = request[began..].starts_with(b"HEAD ");
    match status {
        200 => {
            assert!(asked_for_head || request[began..].starts_with(b"GET "), "{request:?}");
            assert!(contains(request, b"/metrics"), "{request:?}");
            assert!(contains(request, b"\n\r\n") || contains(request, b"\n\n"), "no end of a head");
            assert_eq!(length, TEXT.len());
            assert!(body == if asked_for_head { "" } else { TEXT }, "{body:?}");
        }
        // What the library says of a head that it cannot read (a method that it takes for none among them), and what the
        // site says.
        400 | 404 | 405 | 413 | 414 | 431 => {
            assert!(body.len() == length || asked_for_head && body.is_empty(), "{text:?}");
            assert_eq!(status == 405, seen.contains(&"allow"), "{text:?}");
        }
        _ => panic!("{text:?}"),
    }
    status
}

fn printable(text: &str) -> bool {
    text.bytes().all(|byte| (b' '..=b'~').contains(&byte))
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}
