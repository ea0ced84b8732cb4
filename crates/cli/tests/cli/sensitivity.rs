//! `lab sensitivity`: a table for people, JSON for programs.

use crate::{Place, TINY};

#[test]
fn claims_are_judged_with_each_cost_moved() {
    let place = Place::new();
    place.write("tiny.toml", TINY);
    let ran = place.line("lab sensitivity tiny.toml --by 10 --jobs 1");
    let table = ran.expect(0, &[]).out.clone();
    assert!(table.contains(" costs 10 % down and up\n"), "{table}");
    assert!(table.contains("\nCLAIM "), "{table}");
    assert!(
        table.ends_with("\n0 of 2 claims flip, 2 do not; a trivial model passes 0\n"),
        "{table}"
    );
    // The same whatever the number of threads.
    assert_eq!(place.line("lab sensitivity tiny.toml --by 10 --jobs 2").expect(0, &[]).out, table);
    let json = place.line("lab sensitivity tiny.toml --json").expect(0, &[]).json();
    assert_eq!((&json["name"], &json["by_ratio"]), (&"tiny".into(), &0.2.into()));
    let claims = json["claims"].as_array().unwrap();
    let ids: Vec<_> = claims.iter().map(|claim| &claim["id"]).collect();
    assert_eq!(ids, ["soon", "all of them"]);
    let p99 = ["measured_min", "measured", "measured_max"].map(|key| claims[0][key].as_f64());
    assert!(p99[0] < p99[1] && p99[1] < p99[2], "{p99:?}");
    assert!(claims[0]["flips"].as_array().unwrap().is_empty());
    // A network alone has no costs, and what is no experiment is refused.
    let none = place.line("lab sensitivity switch-queue").expect(0, &[]).out.clone();
    assert_eq!(none, "switch-queue: no costs, nothing to move\n");
    place.line("lab sensitivity nothing").expect(2, &["no experiment is called `nothing`"]);
    place.line("lab sensitivity tiny.toml --by 0").expect(2, &[]);
}
