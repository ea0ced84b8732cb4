//! The report, as a reader sees it: in Chromium.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::{Place, TINY, installed, need, tiny_short};

/// A browser that takes longer than this hangs.
const PATIENCE: Duration = Duration::from_secs(90);

/// The document as it is after loading.
fn dom(chromium: &Path, place: &Place, page: &Path) -> String {
    let (profile, dump) = (place.path("profile"), place.path("dom.html"));
    let mut command = Command::new(chromium);
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"]);
    command.args(["--disable-background-networking", "--disable-component-update", "--dump-dom"]);
    command.arg(format!("--user-data-dir={}", profile.display()));
    command.arg(format!("file://{}", page.display()));
    command.stdin(Stdio::null()).stderr(Stdio::null()).stdout(File::create(&dump).unwrap());
    let mut child = command.spawn().unwrap();
    let began = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if began.elapsed() > PATIENCE {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("{} hangs", chromium.display());
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    assert!(status.success(), "{status}");
    fs::read_to_string(dump).unwrap()
}

/// Writes the report of two shipped experiments and of a scenario that falls short.
fn report(place: &Place) -> PathBuf {
    place.write("tiny.toml", TINY).write("short.toml", tiny_short());
    let line = "lab run boost-no-preempt credit-ratelimit short.toml --report r.html -q";
    place.line(line).expect(1, &[]);
    place.path("r.html")
}

#[test]
fn shows_what_it_should() {
    let chromium = installed(&["chromium", "chromium-browser", "google-chrome"]);
    let Some(chromium) = need(chromium, "Chromium is not installed") else { return };
    let place = Place::new();
    let page = report(&place);
    let dom = dom(&chromium, &place, &page);
    let titles = ["boost-no-preempt", "credit-ratelimit"].map(|name| {
        let shown = place.run(["lab", "show", name, "--json"]).json();
        shown["title"].as_str().unwrap().to_string()
    });
    for title in titles.iter().map(String::as_str).chain(["Tiny scenario"]) {
        assert!(dom.contains(&format!("<h2>{title}</h2>")), "{title}");
    }
    // A section each, with at least the distribution and the strip of the longest wait.
    assert_eq!(dom.matches("<section").count(), 3);
    for section in dom.split("<section").skip(1) {
        assert!(section.matches("<svg").count() >= 2, "{section}");
    }
    // The orders of boost-no-preempt are weak.
    assert_eq!(dom.matches("✓ holds").count(), 2);
    assert_eq!(dom.matches("✓ weak").count(), 2);
    assert_eq!(dom.matches("✗ falls short").count(), 1);
    // Parameters and seed, to repeat it.
    assert!(dom.contains("lowtail lab run boost-no-preempt --seed 1"));
    // A browser mends what is broken and moves it about: text of ours is where it was put.
    assert_eq!(tags(&dom, "svg"), tags(&fs::read_to_string(page).unwrap(), "svg"));
}

fn tags(html: &str, name: &str) -> usize {
    html.matches(&format!("<{name} ")).count()
}

/// No network is needed: nothing but links that a reader may follow leads out of the file.
#[test]
fn needs_nothing_else() {
    let place = Place::new();
    let html = fs::read_to_string(report(&place)).unwrap();
    for tag in html.split('<').skip(1).filter_map(|rest| rest.split_once('>')).map(|(tag, _)| tag) {
        let name = tag.split_whitespace().next().unwrap_or_default();
        assert!(!["script", "link", "iframe", "object", "embed", "base"].contains(&name), "{tag}");
        for attribute in ["src", "href", "srcset", "poster", "data", "action", "background"] {
            let Some((_, value)) = tag.split_once(&format!("{attribute}=\"")) else { continue };
            let inside = value.starts_with('#') || value.starts_with("data:");
            assert!(inside || name == "a", "<{tag}>");
        }
    }
    for (at, _) in html.match_indices("url(") {
        let target = &html[at + 4..];
        assert!(target.starts_with('#') || target.starts_with("data:"), "{}", &target[..40]);
    }
    assert!(!html.contains("@import"));
}
