//! What is shipped: it loads, is called like its file, and repeats to the bit.

use lowtail_lab::{RunOptions, catalogue, json, run};

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

/// Each experiment twice, with one thread and with two.
#[test]
fn every_experiment_repeats_to_the_bit() {
    for shipped in catalogue() {
        let experiment = shipped.load().unwrap_or_else(|error| panic!("{error}"));
        let text = |jobs| {
            let options = RunOptions { jobs, ..RunOptions::default() };
            let outcome = run(&experiment, &options, &|_| ());
            json(&[outcome.unwrap_or_else(|error| panic!("{error}"))]).to_string()
        };
        assert_eq!(text(1), text(2), "{}", shipped.name);
    }
}

#[test]
fn costs_have_sources() {
    let experiment = catalogue()[0].load().unwrap();
    for line in &experiment.cases(false)[0].costs.as_ref().expect("a host").lines {
        assert!(line.source.len() > 20, "{}: no source", line.name);
    }
}
