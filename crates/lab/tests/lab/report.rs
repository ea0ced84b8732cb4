//! The report is well formed, needs no network, and lets nothing through unescaped.

use lowtail_lab::report::html;

use crate::{SMALL, run_with};

/// Checks that every tag is closed, in order, and returns the attributes' text.
fn check_tags(page: &str) -> String {
    let body = page.strip_prefix("<!DOCTYPE html>\n").expect("a doctype");
    let (mut open, mut attributes) = (Vec::new(), String::new());
    let mut rest = body;
    while let Some(start) = rest.find('<') {
        assert!(
            !rest[..start].contains('>') || open.last() == Some(&"style"),
            "{}",
            &rest[..start]
        );
        let end = start + rest[start..].find('>').expect("every < has its >");
        let tag = &rest[start + 1..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "{tag}");
            continue;
        }
        assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
        let name = tag.split([' ', '/']).next().unwrap();
        assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit()), "{tag}");
        attributes += tag;
        attributes.push('\n');
        if !tag.ends_with('/') {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "{open:?} left open");
    attributes
}

#[test]
fn it_is_well_formed_and_self_contained() {
    let claims = "[[published]]\ncase = '<b>&\"1'\ntolerance = '10%'\np50 = 50\np99 = 70\n";
    let case = "[[case]]\nname = '<b>&\"1'\nrows = ['io']\n[[case]]\nname = '2'\nrows = ['io']\n";
    let text = SMALL.replace("\"small\"", "'<script>alert(1)</script>') ").replace("') ", "'");
    let few = run_with(&format!("{text}{case}{claims}"), 1);
    let duty = "[[case]]\nname = '{duty} {x}'\nrows = ['nap']\nfor = { duty = [10, 20, 40, 80, 99], x = ['&', '<'] }\n";
    let many = run_with(&format!("{SMALL}{duty}"), 2);
    let page = html(&[few.clone(), many]);
    let attributes = check_tags(&page);
    for load in ["src=", "href=\"http", "url(", "@import", "<script", "<link", "javascript:"] {
        assert!(!page.contains(load), "{load}");
    }
    assert!(attributes.contains("href=\"#e-x\""));
    assert!(page.contains("&lt;b&gt;&amp;&quot;1"));
    for part in ["Claims", "Rows", "longest wait", "Costs", "seed 3", "published p50", "<polyline"]
    {
        assert!(page.contains(part), "{part}");
    }
    check_tags(&html(&[few]));
    check_tags(&html(&[]));
}
