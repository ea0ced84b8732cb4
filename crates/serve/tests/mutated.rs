//! Random requests, through the connection's code in memory.

use lowtail_serve::{InMemory, Limits, Site, Source};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

const TEXT: &str = "lowtail_up 1\n# EOF\n";

struct Fixed;

impl Source for Fixed {
    fn version(&self) -> u64 {
        0
    }

    fn text(&self) -> Result<String, String> {
        Ok(TEXT.to_string())
    }
}

const SEEDS: [&str; 8] = [
    "GET /metrics HTTP/1.1\r\nHost: a\r\nAccept: application/openmetrics-text\r\n\r\n",
    "HEAD /metrics HTTP/1.0\r\n\r\n",
    "POST /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\nhello world",
    "POST /metrics HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    "GET /metrics HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 99999999999\r\n\r\n",
    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "GET /metrics HTTP/1.1\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n\r\n",
    "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\nGET http://a/metrics HTTP/1.1\r\nHost: a\r\n\r\n",
];

const WORDS: [&str; 12] = [
    "\r\n",
    "\n",
    "\r\n\r\n",
    "Content-Length: ",
    "18446744073709551615",
    "chunked",
    ":",
    " ",
    "\0",
    "HTTP/1.1",
    "Transfer-Encoding: chunked\r\n",
    "/metrics",
];

fn mutated(random: &mut SmallRng) -> Vec<u8> {
    let mut bytes = SEEDS[random.random_range(0..SEEDS.len())].as_bytes().to_vec();
    for _ in 0..random.random_range(0..6) {
        let at = random.random_range(0..=bytes.len());
        match random.random_range(0..6) {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, random.random()),
            2 if at < bytes.len() => bytes[at] = random.random(),
            3 => {
                let word = WORDS[random.random_range(0..WORDS.len())];
                bytes.splice(at..at, word.bytes());
            }
            4 => {
                let end = random.random_range(at..=bytes.len());
                let part = bytes[at..end].to_vec();
                for _ in 0..random.random_range(0..8) {
                    bytes.splice(at..at, part.iter().copied());
                }
            }
            // More than a head may have, now and then.
            _ if random.random_range(0..50) == 0 => {
                let many = random.random_range(0..20_000);
                bytes.splice(at..at, std::iter::repeat_n(b'h', many));
            }
            _ => {}
        }
    }
    bytes
}

/// Whatever comes, there is one whole answer or none, and the next client gets its own.
#[test]
fn a_hundred_thousand_mutated_requests() {
    let first: u64 = std::env::var("LOWTAIL_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    println!("LOWTAIL_SEED={first} cargo test -p lowtail-serve --test mutated");
    let mut random = SmallRng::seed_from_u64(first);
    let site = Site { path: "/metrics", content_type: "text/plain", source: Box::new(Fixed) };
    let server = InMemory::new(site, Limits::default()).expect("a server");
    let (mut none, mut well, mut refused) = (0, 0, 0);
    for number in 0..100_000 {
        let bytes = mutated(&mut random);
        let answer = server.answer(&bytes);
        let told = || format!("request {number}: {:?}", String::from_utf8_lossy(&bytes));
        if answer.is_empty() {
            none += 1;
            continue;
        }
        let text = String::from_utf8(answer).unwrap_or_else(|_| panic!("no text, {}", told()));
        let status = text.split(' ').nth(1).unwrap_or_default();
        assert!(text.starts_with("HTTP/1."), "{text:?}, {}", told());
        assert_eq!(text.matches("HTTP/1.").count(), 1, "{text:?}, {}", told());
        match status {
            "200" => {
                well += 1;
                assert!(text.ends_with(TEXT) || text.ends_with("\r\n\r\n"), "{text:?}, {}", told());
            }
            _ => {
                refused += 1;
                assert!(status.starts_with('4') && status.len() == 3, "{text:?}, {}", told());
            }
        }
    }
    println!("{well} answered, {refused} refused, {none} closed without an answer");
    // All three happen, or this test looks at nothing.
    assert!(well > 1_000 && refused > 1_000 && none > 100);
    let last = server.answer(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(last.ends_with(TEXT.as_bytes()));
}
