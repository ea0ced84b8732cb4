//! What is kept in `fuzz/corpus` and `fuzz/regressions`, read by all readers on any toolchain, and some of it damaged.
//!
//! `LOWTAIL_SEED` begins elsewhere, `LOWTAIL_FUZZ_INPUTS` says how many damaged inputs each reader gets.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use lowtail_engine::Rng;
use lowtail_fuzz::mutate::mutate;
use lowtail_fuzz::{TARGETS, Target, find, run};

/// Damaged inputs for each reader of short texts; a sixteenth for those that take long.
const INPUTS: u64 = 16_000;

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

/// The files in a directory, by name.
fn files(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = fs::read_dir(dir).into_iter().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), fs::read(path).expect("a file"))).collect()
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text}: a number")))
}

/// Runs it; a panic says what it was about, and keeps the input if it is in no file yet.
fn attempt(target: &Target, bytes: &[u8], what: &str, kept: bool) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| run(target, bytes))) {
        let mut input = what.to_string();
        if !kept {
            let path = std::env::temp_dir().join(format!("lowtail-fuzz-{}", target.name));
            let _ = fs::write(&path, bytes);
            input = format!("{what}, which is in {}", path.display());
        }
        eprintln!("{}: {input}", target.name);
        std::panic::resume_unwind(panic);
    }
}

/// All files of a target, then damaged ones.
fn replay(name: &str) {
    let target = find(name).expect("a target");
    let corpus = files(&top().join("corpus").join(name));
    assert!(!corpus.is_empty(), "fuzz/corpus/{name} is empty");
    let bytes: usize = corpus.iter().map(|(_, bytes)| bytes.len()).sum();
    assert!(
        corpus.len() <= 200 && bytes <= 300_000,
        "{name}: {} files, {bytes} bytes",
        corpus.len()
    );
    let found = files(&top().join("regressions").join(name));
    for (path, bytes) in corpus.iter().chain(&found) {
        attempt(target, bytes, &path.display().to_string(), true);
    }
    let seed = number("LOWTAIL_SEED").unwrap_or(1);
    let long = target.bytes_max > 4096;
    let usual = if long { INPUTS / 16 } else { INPUTS };
    let inputs = number("LOWTAIL_FUZZ_INPUTS").unwrap_or(usual);
    println!("LOWTAIL_SEED={seed} LOWTAIL_FUZZ_INPUTS={inputs} repeats it");
    let mut rng = Rng::new(seed, name);
    let seeds: Vec<&Vec<u8>> = corpus.iter().chain(&found).map(|(_, bytes)| bytes).collect();
    for input in 0..inputs {
        let mut any = || seeds[rng.below(seeds.len() as u64) as usize];
        let (mut bytes, other) = (any().clone(), any());
        mutate(&mut bytes, target.words, other, &mut rng);
        attempt(target, &bytes, &format!("input {input} of LOWTAIL_SEED={seed}"), false);
    }
}

macro_rules! targets {
    ($($name:ident),* $(,)?) => {
        const NAMES: &[&str] = &[$(stringify!($name)),*];
        $(#[test]
        fn $name() {
            replay(stringify!($name));
        })*
    };
}

targets!(
    xentrace,
    perf,
    recording,
    domain,
    labels,
    cpus,
    names,
    values,
    scenario,
    machines,
    topology,
    report,
    causes,
    policy,
    ledger,
    guard,
    stat,
    cgroup,
    cmdline,
    thread_names,
    group_name,
    fdinfo,
    declared,
    name,
    mountinfo,
    cpu_stat,
    cpu_list,
    netlink,
    qdiscs,
    tree_text,
    tagger_text,
    maps,
    flow_maps,
    record_maps,
    http,
    xl,
);

/// No reader is left out: each is replayed here, and has a target of libFuzzer's.
#[test]
fn all_targets_are_replayed_and_fuzzed() {
    let all: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
    assert_eq!(all, NAMES);
    let stem = |path: &Path| path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let fuzzed: Vec<String> =
        files(&top().join("fuzz_targets")).iter().filter_map(|(path, _)| stem(path)).collect();
    let mut wanted = all.clone();
    wanted.sort_unstable();
    assert_eq!(fuzzed, wanted);
    let manifest = fs::read_to_string(top().join("Cargo.toml")).expect("a manifest");
    for name in all {
        assert!(
            manifest.contains(&format!("name = \"{name}\"")),
            "{name} is not in fuzz/Cargo.toml"
        );
    }
    for kind in ["corpus", "regressions"] {
        for (path, _) in
            fs::read_dir(top().join(kind)).into_iter().flatten().flatten().map(|e| (e.path(), ()))
        {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            assert!(find(&name).is_some() || !path.is_dir(), "{} is of no target", path.display());
        }
    }
}

/// What is counted is counted: a reader that takes more than it may is told.
#[test]
fn who_allocates_too_much_is_told() {
    let used = lowtail_fuzz::allocated::measure(|| {
        for _ in 0..10 {
            std::hint::black_box(vec![0_u8; 1000]);
        }
    });
    assert!((1000..2000).contains(&used.held) && used.taken >= 10_000, "{used:?}");
    let greedy = Target {
        read: |bytes| {
            for _ in 0..bytes.len() {
                std::hint::black_box(bytes.to_vec());
            }
        },
        ..*find("name").expect("a target")
    };
    let quadratic = catch_unwind(|| run(&Target { bytes_max: 1 << 20, ..greedy }, &[0; 100_000]));
    assert!(quadratic.is_err());
}
