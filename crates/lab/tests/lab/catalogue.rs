//! What is shipped: it loads, and is called like its file. That it repeats to the bit is tested with
//! the command, which runs it anyway.

use lowtail_lab::catalogue;

#[test]
fn every_experiment_loads_and_says_where_it_comes_from() {
    assert!(catalogue().len() >= 5);
    for shipped in catalogue() {
        let experiment = shipped.load().unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(experiment.name, shipped.name);
        assert!(!experiment.file.source.is_empty(), "{}: no source", shipped.name);
        assert!(experiment.file.notes.len() > 100, "{}: say more", shipped.name);
        assert!(!experiment.cases(true).is_empty());
    }
}

#[test]
fn costs_have_sources() {
    let experiment = catalogue()[0].load().unwrap();
    for line in &experiment.cases(false)[0].costs.as_ref().expect("a host").lines {
        assert!(line.source.len() > 20, "{}: no source", line.name);
    }
}
