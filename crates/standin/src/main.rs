//! The command `lowtail-standin`.

use std::process::ExitCode;

fn main() -> ExitCode {
    match lowtail_standin::main() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
