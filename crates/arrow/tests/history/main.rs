//! A history on the disk: within its bound, whole after a kill at any moment, and going on where nothing can be written.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{ArrayRef, RecordBatch, UInt64Array};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use lowtail_arrow::History;
use lowtail_arrow::history::Options;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

/// A second of 2026-11-30, in milliseconds since 1970.
const BEGIN_MS: u64 = 1_796_057_098_000;
/// Long enough for nothing to be closed but at the end.
const NEVER: Duration = Duration::from_secs(3600);

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("number", DataType::UInt64, false)]))
}

/// Two tables with the same column.
fn tables() -> Vec<(&'static str, SchemaRef)> {
    vec![("one", schema()), ("two", schema())]
}

fn batch(numbers: impl IntoIterator<Item = u64>) -> RecordBatch {
    let column: ArrayRef = Arc::new(UInt64Array::from_iter_values(numbers));
    RecordBatch::try_new(schema(), vec![column]).expect("a column")
}

/// Numbers that hardly shrink: eight bytes each.
fn noise(from: u64, count: u64) -> RecordBatch {
    batch((from..from + count).map(|n| n.wrapping_mul(0x9E37_79B9_7F4A_7C15)))
}

fn open(dir: &Path, bytes_max: u64, every: Duration) -> History {
    let options = Options { dir: dir.to_owned(), bytes_max, every };
    History::open(options, tables()).expect("a history")
}

/// A history that is closed after one interval.
fn keep(dir: &Path, bytes_max: u64, unix_ms: u64, batch: RecordBatch) -> Vec<String> {
    let mut history = open(dir, bytes_max, NEVER);
    history.add(unix_ms, vec![batch.clone(), batch]);
    history.finish()
}

/// Names of what is in a table, sorted.
fn names(dir: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let both = ["one", "two"].map(|table| dir.join(table));
    both.iter().flat_map(|table| names(table).into_iter().map(|name| table.join(name))).collect()
}

fn bytes(dir: &Path) -> u64 {
    files(dir).iter().filter_map(|path| fs::metadata(path).ok()).map(|file| file.len()).sum()
}

/// The numbers of a file, which has to be whole.
fn read(path: &Path) -> Vec<u64> {
    let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(path).expect("a file"));
    let reader = reader.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let batches = reader.build().expect("a reader").map(|batch| batch.expect("a batch"));
    let numbers =
        |batch: RecordBatch| batch.column(0).as_primitive::<UInt64Type>().values().to_vec();
    batches.flat_map(numbers).collect()
}

/// Whether the test is skipped, since it needs root: it says so, and may not be in CI.
fn not_root() -> bool {
    let root = fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0);
    if !root {
        assert!(std::env::var_os("CI").is_none(), "not root, but in CI nothing may be skipped");
        eprintln!("skipped: not root");
    }
    !root
}

#[test]
fn files_have_the_time_of_their_first_interval() {
    let dir = tempfile::tempdir().expect("a directory");
    let dir = dir.path().join("new/history");
    let mut history = open(&dir, 1 << 20, NEVER);
    for n in 0..3 {
        history.add(BEGIN_MS + 1000 * n, vec![batch([n]), batch([])]);
    }
    assert_eq!(history.finish(), Vec::<String>::new());
    assert_eq!(names(&dir.join("one")), ["20261130T164458.000Z.parquet"]);
    assert_eq!(read(&dir.join("one/20261130T164458.000Z.parquet")), [0, 1, 2]);
    // One without lines shows its columns, once.
    assert!(read(&dir.join("two/20261130T164458.000Z.parquet")).is_empty());
    // At the same time again, as after a clock that was set back: nothing is replaced.
    let mut history = open(&dir, 1 << 20, NEVER);
    history.add(BEGIN_MS, vec![batch([3]), batch([])]);
    assert_eq!(history.finish(), Vec::<String>::new());
    assert_eq!(
        names(&dir.join("one")),
        ["20261130T164458.000Z.parquet", "20261130T164458.001Z.parquet"]
    );
    assert_eq!(read(&dir.join("one/20261130T164458.001Z.parquet")), [3]);
    assert_eq!(names(&dir.join("two")), ["20261130T164458.000Z.parquet"]);
    // It tells about VMs of others.
    let mode = |path: &str| fs::metadata(dir.join(path)).expect("it is there").permissions().mode();
    assert_eq!(mode("") & 0o777, 0o700);
    assert_eq!(mode("one/20261130T164458.000Z.parquet") & 0o777, 0o600);
}

#[test]
fn files_are_closed_while_it_goes_on() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut history = open(dir.path(), 1 << 20, Duration::from_millis(50));
    let begin = Instant::now();
    let mut n = 0;
    while files(dir.path()).len() < 6 {
        assert!(begin.elapsed() < Duration::from_secs(60), "{:?}", files(dir.path()));
        history.add(BEGIN_MS + n, vec![batch([n]), batch([n])]);
        n += 1;
        std::thread::sleep(Duration::from_millis(5));
    }
    // Also if no interval follows.
    let before = n;
    let told = history.finish();
    assert_eq!(told, Vec::<String>::new());
    let all: Vec<u64> = names(&dir.path().join("one"))
        .iter()
        .flat_map(|name| read(&dir.path().join("one").join(name)))
        .collect();
    assert_eq!(all, (0..before).collect::<Vec<_>>(), "each interval once, in order");
}

#[test]
fn the_oldest_make_room_and_nobody_elses() {
    let dir = tempfile::tempdir().expect("a directory");
    let dir = dir.path();
    let bound = 200_000;
    assert_eq!(keep(dir, bound, BEGIN_MS, noise(0, 1000)), Vec::<String>::new());
    let others = ["one/notes.txt", "one/1999.parquet", "other.parquet"];
    others.iter().for_each(|name| fs::write(dir.join(name), [0; 1000]).expect("a file"));
    let (mut most, mut written) = (0, 0);
    for n in 1..40 {
        assert_eq!(keep(dir, bound, BEGIN_MS + 60_000 * n, noise(n, 1000)), Vec::<String>::new());
        for name in &others {
            assert!(dir.join(name).is_file(), "{name}");
        }
        let ours: u64 = bytes(dir) - 2000;
        assert!(ours <= bound, "{ours}");
        most = most.max(ours);
        written += 1;
        // The newest is there, and so are all after the oldest.
        let names = names(&dir.join("two"));
        assert_eq!(
            names,
            (0..=n)
                .map(|n| format!("20261130T{}.000Z.parquet", clock(60 * n)))
                .skip((n as usize + 1) - names.len())
                .collect::<Vec<_>>()
        );
    }
    assert!(most > bound * 8 / 10, "{most}");
    println!("{written} times written, {most} bytes at most of {bound}");
}

/// The time of day so many seconds after 16:44:58.
fn clock(seconds: u64) -> String {
    let at = 16 * 3600 + 44 * 60 + 58 + seconds;
    format!("{:02}{:02}{:02}", at / 3600, at / 60 % 60, at % 60)
}

#[test]
fn what_is_larger_than_the_bound_is_not_written_and_deletes_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    keep(dir.path(), 100_000, BEGIN_MS, noise(0, 1000));
    let before = files(dir.path());
    let told = keep(dir.path(), 100_000, BEGIN_MS + 1000, noise(0, 20_000));
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("are more than the 100000 that are to be kept"), "{told:?}");
    assert_eq!(files(dir.path()), before);
}

#[test]
fn one_at_a_time() {
    let dir = tempfile::tempdir().expect("a directory");
    let first = open(dir.path(), 1 << 20, NEVER);
    let options = Options { dir: dir.path().to_owned(), bytes_max: 1 << 20, every: NEVER };
    let second = History::open(options.clone(), tables());
    let error = second.err().expect("it is taken").to_string();
    assert!(error.contains("another lowtail keeps its history there"), "{error}");
    drop(first);
    assert!(History::open(options, tables()).is_ok());
}

#[test]
fn what_is_unfinished_is_removed_and_nothing_else() {
    let dir = tempfile::tempdir().expect("a directory");
    keep(dir.path(), 1 << 20, BEGIN_MS, batch([1]));
    let one = dir.path().join("one");
    for name in [".lowtail-0123456789abcdef.part", ".lowtail-ffffffffffffffff.part", ".other.part"]
    {
        fs::write(one.join(name), "PAR1").expect("a file");
    }
    drop(open(dir.path(), 1 << 20, NEVER));
    assert_eq!(names(&one), [".other.part", "20261130T164458.000Z.parquet"]);
}

#[test]
fn no_directory_is_told_at_once() {
    let dir = tempfile::tempdir().expect("a directory");
    fs::write(dir.path().join("file"), "").expect("a file");
    for name in ["file", "file/below"] {
        let options = Options { dir: dir.path().join(name), bytes_max: 1 << 20, every: NEVER };
        assert!(History::open(options, tables()).is_err(), "{name}");
    }
}

/// A table's directory is somebody else's link: nothing is written or deleted where it leads.
#[test]
fn links_lead_nowhere() {
    let dir = tempfile::tempdir().expect("a directory");
    let (kept, elsewhere) = (dir.path().join("kept"), dir.path().join("elsewhere"));
    keep(&elsewhere, 1 << 20, BEGIN_MS, noise(0, 1000));
    fs::create_dir(&kept).expect("a directory");
    std::os::unix::fs::symlink(elsewhere.join("one"), kept.join("one")).expect("a link");
    let options = Options { dir: kept, bytes_max: 1 << 20, every: NEVER };
    assert!(History::open(options, tables()).is_err());
    assert_eq!(files(&elsewhere).len(), 2);
}

/// The directory goes, as a disk does that is pulled out, and comes again: said once each time.
#[test]
fn it_goes_on_without_its_directory() {
    let dir = tempfile::tempdir().expect("a directory");
    let (here, away) = (dir.path().join("history"), dir.path().join("away"));
    let mut history = open(&here, 1 << 20, Duration::from_millis(10));
    let mut n = 0;
    let mut go_on = |history: &mut History, until: &dyn Fn(&[String]) -> bool| {
        let (begin, mut told) = (Instant::now(), Vec::new());
        while !until(&told) {
            assert!(begin.elapsed() < Duration::from_secs(60), "{told:?}");
            history.add(BEGIN_MS + n, vec![batch([n]), batch([n])]);
            n += 1;
            std::thread::sleep(Duration::from_millis(5));
            told.extend(history.told());
        }
        // Long enough for it to be said again, if it were.
        for _ in 0..20 {
            history.add(BEGIN_MS + n, vec![batch([n]), batch([n])]);
            n += 1;
            std::thread::sleep(Duration::from_millis(5));
            told.extend(history.told());
        }
        told
    };
    assert_eq!(go_on(&mut history, &|_| files(&here).len() >= 4), Vec::<String>::new());
    fs::rename(&here, &away).expect("it goes");
    let told = go_on(&mut history, &|told| !told.is_empty());
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("is not in the history"), "{told:?}");
    assert!(!here.exists(), "what is mounted there may come again");
    fs::rename(&away, &here).expect("it comes");
    let before = files(&here).len();
    let told = go_on(&mut history, &|told| !told.is_empty());
    assert_eq!(told, ["it is written again; what came meanwhile is missing"]);
    assert!(files(&here).len() > before);
    assert_eq!(history.finish(), Vec::<String>::new());
    // A table's own directory is made again, here while nothing is written.
    let mut history = open(&here, 1 << 20, NEVER);
    fs::remove_dir_all(here.join("two")).expect("it goes");
    history.add(BEGIN_MS + n, vec![batch([n]), batch([n])]);
    assert_eq!(history.finish(), Vec::<String>::new());
    assert_eq!(names(&here.join("two")).len(), 1);
    files(&here).iter().for_each(|path| drop(read(path)));
}

/// A file system of its own, which is gone with it.
struct Disk(tempfile::TempDir);

impl Disk {
    fn new(size: &str) -> Option<Self> {
        let dir = tempfile::tempdir().expect("a directory");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"]).arg(dir.path());
        let mounted = mount.status().is_ok_and(|status| status.success());
        if !mounted {
            assert!(std::env::var_os("CI").is_none(), "no tmpfs, but in CI nothing may be skipped");
            eprintln!("skipped: no tmpfs can be mounted");
        }
        mounted.then(|| Disk(dir))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

#[test]
fn a_full_disk_is_told_once_and_later_it_goes_on() {
    if not_root() {
        return;
    }
    let Some(disk) = Disk::new("512k") else { return };
    let dir = disk.0.path().join("history");
    // More than the disk has.
    let bound = 1 << 30;
    let mut history = open(&dir, bound, Duration::from_millis(10));
    let mut n = 0;
    let mut told = Vec::new();
    let begin = Instant::now();
    let mut add = |history: &mut History, told: &mut Vec<String>| {
        assert!(begin.elapsed() < Duration::from_secs(120), "{told:?}");
        history.add(BEGIN_MS + n, vec![noise(n, 1000), noise(n, 1000)]);
        n += 1;
        std::thread::sleep(Duration::from_millis(5));
        told.extend(history.told());
    };
    while told.is_empty() {
        add(&mut history, &mut told);
    }
    let full = files(&dir).len();
    (0..100).for_each(|_| add(&mut history, &mut told));
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("No space left on device"), "{told:?}");
    // What is there is whole, and nothing unfinished takes room.
    let there = files(&dir);
    there.iter().for_each(|path| assert!(!read(path).is_empty()));
    assert!(there.iter().all(|path| path.extension().is_some_and(|end| end == "parquet")));
    println!(
        "{full} files on a full disk of 512 KiB, then {} more",
        there.len().saturating_sub(full)
    );
    // Somebody makes room.
    there.iter().for_each(|path| fs::remove_file(path).expect("it goes"));
    while told.len() < 2 {
        add(&mut history, &mut told);
    }
    assert_eq!(told[1], "it is written again; what came meanwhile is missing");
    drop(history);
    files(&dir).iter().for_each(|path| drop(read(path)));
}

/// The bound is less than the disk has: it is never full.
#[test]
fn within_its_bound_a_small_disk_does() {
    if not_root() {
        return;
    }
    let Some(disk) = Disk::new("512k") else { return };
    let mut history = open(disk.0.path(), 300_000, Duration::from_millis(10));
    for n in 0..200 {
        history.add(BEGIN_MS + n, vec![noise(n, 1000), noise(n, 1000)]);
        std::thread::sleep(Duration::from_millis(5));
        assert_eq!(history.told(), Vec::<String>::new());
        assert!(bytes(disk.0.path()) <= 300_000);
    }
    assert_eq!(history.finish(), Vec::<String>::new());
}

/// Of `killed`: writes without end.
const CHILD: &str = "LOWTAIL_HISTORY_OF_A_CHILD";

#[test]
fn a_child_that_is_killed() {
    let Some(dir) = std::env::var_os(CHILD) else { return };
    let mut history = open(Path::new(&dir), 400_000, Duration::from_millis(3));
    for n in 0.. {
        // Lines of one interval are the same in both tables.
        history.add(BEGIN_MS + n, vec![batch(7 * n..7 * n + 7), batch(7 * n..7 * n + 7)]);
        std::thread::sleep(Duration::from_micros(300));
    }
}

fn child(dir: &Path) -> Child {
    let own = std::env::current_exe().expect("this program");
    let mut command = Command::new(own);
    command.args(["--exact", "a_child_that_is_killed"]).env(CHILD, dir);
    command.stdout(std::process::Stdio::null()).spawn().expect("it starts")
}

/// At forty moments: what has a name is whole, and holds whole intervals; at the next start nothing unfinished is left.
#[test]
fn killed_at_any_moment_all_that_has_a_name_is_whole() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut read_files, mut unfinished) = (0, 0);
    for moment in 0..40_u64 {
        let mut child = child(dir.path());
        // A reader looks on meanwhile.
        let end = Instant::now() + Duration::from_micros(30_000 + moment * 2_711);
        while Instant::now() < end {
            for path in files(dir.path()).iter().rev().take(3) {
                // It may be deleted between the two looks.
                if let Ok(file) = File::open(path)
                    && path.extension().is_some_and(|end| end == "parquet")
                {
                    let reader = ParquetRecordBatchReaderBuilder::try_new(file);
                    reader.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
                }
            }
        }
        child.kill().expect("it runs");
        assert_eq!(child.wait().expect("it ends").signal(), Some(9));
        for path in files(dir.path()) {
            if path.extension().is_some_and(|end| end != "parquet") {
                unfinished += 1;
                continue;
            }
            let numbers = read(&path);
            assert!(
                numbers.len().is_multiple_of(7),
                "{}: {} numbers",
                path.display(),
                numbers.len()
            );
            assert!(numbers.windows(2).all(|two| two[1] == two[0] + 1), "{}", path.display());
            read_files += 1;
        }
        assert!(bytes(dir.path()) <= 400_000);
        drop(open(dir.path(), 400_000, NEVER));
        let left = files(dir.path());
        assert!(left.iter().all(|path| path.extension().is_some_and(|end| end == "parquet")));
    }
    assert!(read_files > 100, "{read_files}");
    println!("40 kills: {read_files} files read, {unfinished} unfinished");
}
