//! Who reads Parquet files: a Python with pyarrow, pandas, Polars and DuckDB.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use lowtail_testkit::needs;
use serde_json::Value;

/// The Python, if there is one.
pub(crate) fn python() -> Option<PathBuf> {
    let missing = "LOWTAIL_PARQUET_PYTHON names no Python with pyarrow, pandas, polars and duckdb";
    let python = std::env::var_os("LOWTAIL_PARQUET_PYTHON").map(PathBuf::from);
    needs::skip(python.is_none().then_some(missing));
    python
}

/// What the script says.
fn script(python: &Path, args: &[PathBuf], input: &str) -> Vec<Value> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/parquet_readers.py");
    let mut command = Command::new(python);
    command.arg(script).args(args).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    child.stdin.take().expect("a pipe").write_all(input.as_bytes()).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "the script says why above");
    let said: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    said.as_array().expect("a list").clone()
}

/// The tables at these places, after all three have read them and have agreed.
pub(crate) fn read(python: &Path, places: &[PathBuf]) -> Vec<Value> {
    script(python, places, "")
}

/// JSON as it was printed, to the last bit: `serde_json` may be one off when it reads. Floating-point numbers are hexadecimal.
pub(crate) fn exact(python: &Path, json: &str) -> Vec<Value> {
    script(python, &[PathBuf::from("--json")], json)
}

/// Whether a value that was read is what JSON has, as [`exact`] returns it.
pub(crate) fn is(read: &Value, json: &Value) -> bool {
    // JSON has whole numbers without a point.
    read == json || number(read).is_some_and(|read| number(json) == Some(read))
}

/// A number, or one in hexadecimal.
pub(crate) fn number(value: &Value) -> Option<f64> {
    match value {
        Value::String(hex) => bits(hex).map(f64::from_bits),
        value => value.as_f64(),
    }
}

/// The bits of `0x1.5p-3`, as Python writes it: the digits are exact.
fn bits(hex: &str) -> Option<u64> {
    let (sign, hex) = hex.strip_prefix('-').map_or((1.0, hex), |hex| (-1.0, hex));
    let (digits, power) = hex.strip_prefix("0x")?.split_once('p')?;
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let mantissa = u64::from_str_radix(&format!("{whole}{part}"), 16).ok()?;
    let power: i32 = power.parse().ok()?;
    let power = power - 4 * part.len() as i32;
    // In two steps, since 2^power alone may be too small.
    let half = power / 2;
    Some((sign * mantissa as f64 * 2f64.powi(half) * 2f64.powi(power - half)).to_bits())
}

/// The rows of a table that was read.
pub(crate) fn rows(table: &Value) -> &[Value] {
    table["rows"].as_array().expect("rows")
}

#[test]
fn hexadecimal_is_exact() {
    for figure in [0.0, 1.0, 0.1 + 0.2, 1e-12, 5e-324, f64::MAX, -2.5, 6.02e23] {
        // As Python writes it: 0x1.MANTISSAp+EXPONENT.
        let own = f64::to_bits(figure);
        let (exponent, mantissa) = ((own >> 52 & 0x7ff) as i32, own & ((1 << 52) - 1));
        let sign = if figure.is_sign_negative() { "-" } else { "" };
        let hex = match exponent {
            0 => format!("{sign}0x0.{mantissa:013x}p-1022"),
            _ => format!("{sign}0x1.{mantissa:013x}p{:+}", exponent - 1023),
        };
        assert_eq!(bits(&hex), Some(own), "{figure} {hex}");
    }
}
