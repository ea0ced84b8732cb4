//! Pieces that ran elsewhere, and values in place of the file's.

use lowtail_lab::{Error, Experiment, Override, Piece, RunOptions, join, json, run};

use crate::{NET, SMALL, parse};

/// The pieces of a run in another order than it has them, each without all that is no row.
fn pieces(experiment: &Experiment, options: &RunOptions, seeds: u64) -> Vec<Piece> {
    let seed = options.seed.unwrap_or(experiment.file.seed);
    let cases = experiment.cases(options.full).iter().rev();
    let of = |case: &str, nth: u64| {
        let piece = Piece::run(experiment, options, case, seed + nth).unwrap();
        Piece::new(piece.case, piece.seed, piece.rows)
    };
    cases.flat_map(|case| (0..seeds).rev().map(move |nth| of(&case.name, nth))).collect()
}

#[test]
fn all_pieces_together_are_the_run() {
    for (text, seeds) in [(SMALL, 1), (SMALL, 3), (NET, 2)] {
        let experiment = parse(text).unwrap();
        let options = RunOptions { seed: Some(11), seeds: Some(seeds), ..RunOptions::default() };
        let whole = run(&experiment, &options, &|_| ()).unwrap();
        let joined =
            join(&experiment, &options, pieces(&experiment, &options, seeds.into())).unwrap();
        assert_eq!(joined.rows, whole.rows);
        assert_eq!(joined.claims, whole.claims);
        assert_eq!(json(&[joined]), json(&[whole]));
    }
}

#[test]
fn means_of_pieces_are_those_of_a_run() {
    let experiment = parse(SMALL).unwrap();
    let options = RunOptions { seed: Some(11), seeds: Some(4), ..RunOptions::default() };
    let whole = run(&experiment, &options, &|_| ()).unwrap();
    let case = &experiment.cases(false)[0].name;
    let of = |nth: u64| Piece::run(&experiment, &options, case, 11 + nth).unwrap();
    assert_eq!(Piece::mean((0..4).map(of).collect()), whole.rows);
    assert_eq!(Piece::mean(Vec::new()), []);
}

#[test]
fn a_missing_piece_is_named() {
    let experiment = parse(SMALL).unwrap();
    let options = RunOptions { seed: Some(11), seeds: Some(2), ..RunOptions::default() };
    let mut all = pieces(&experiment, &options, 2);
    all.remove(0);
    let error = join(&experiment, &options, all).unwrap_err();
    assert!(matches!(error, Error::NoPiece { seed: 12, .. }), "{error}");
    let error = Piece::run(&experiment, &options, "none", 1).unwrap_err();
    assert!(matches!(error, Error::NoSuchCase { .. }), "{error}");
}

fn set(words: &[&str]) -> Result<Experiment, Error> {
    let overrides: Vec<Override> = words.iter().map(|word| word.parse().unwrap()).collect();
    Experiment::parse_with("x.toml", SMALL, None, &overrides)
}

/// A value that is set is as if the file had it, and its command says it.
#[test]
fn a_value_that_is_set_is_as_if_the_file_had_it() {
    let written = parse(&SMALL.replace("wakeups = 200", "wakeups = 300")).unwrap();
    let set = set(&["vm.nap.workload.wakeups=300"]).unwrap();
    let options = RunOptions::default();
    let [written, set] =
        [written, set].map(|experiment| run(&experiment, &options, &|_| ()).unwrap());
    assert_eq!(written.rows, set.rows);
    assert!(set.command.ends_with("--seed 3 --set vm.nap.workload.wakeups=300"), "{}", set.command);
}

#[test]
fn what_is_wrong_with_a_value_is_said_of_its_place() {
    let wrong = |word: &str| match set(&[word]).unwrap_err() {
        Error::At(located) => (located.line, located.message),
        other => panic!("{other}"),
    };
    // SMALL begins with an empty line.
    let line = |of: &str| 1 + SMALL.lines().position(|line| line.starts_with(of)).unwrap();
    assert_eq!(wrong("host.pcpus=many").0, line("pcpus"));
    // Of several the one is named that is to blame, of a file that is wrong itself none.
    let words = ["vm.nap.count=2", "host.pcpus=many"];
    let error = set(&words).unwrap_err().to_string();
    assert!(error.ends_with("; set was host.pcpus=\"many\""), "{error}");
    let damaged = SMALL.replace("pcpus", "pcpu");
    let one: Override = "vm.nap.count=2".parse().unwrap();
    let error = Experiment::parse_with("x.toml", &damaged, None, &[one]).unwrap_err().to_string();
    assert!(!error.contains("set was"), "{error}");
    assert_eq!(wrong("duration=-1s").0, line("duration"));
    // What the file does not have stands where its table does.
    let (at, message) = wrong("host.pcpu=4");
    assert_eq!(at, line("[host]"));
    assert!(message.contains("pcpu"), "{message}");
}
