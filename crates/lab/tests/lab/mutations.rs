//! Scenario files damaged at random: refused or run, never a panic.

use std::panic::catch_unwind;

use lowtail_config_text::damage;
use lowtail_engine::Rng;
use lowtail_lab::Experiment;

/// Bits of scenario files that mean something, beside those of all files.
const PIECES: &[&str] = &[
    "[[case]]\n",
    "[[claim]]\n",
    "\"{x}\"",
    "{x}",
    "for = { x = [1, 2] }\n",
    "set = { vm = 1 }\n",
    "\"host\" = 1\n",
    "kind",
    "vm.io",
    "workload",
];

#[test]
fn damaged_files_never_panic() {
    let shipped = lowtail_lab::catalogue().iter();
    let shipped = shipped.map(|experiment| (experiment.name, experiment.text.to_string()));
    for (name, text) in shipped.chain([("kvm", crate::kvm::threads())]) {
        let (mut good, mut bad) = (0, 0);
        for seed in 0..400 {
            let text = damage(&text, PIECES, 4, &mut Rng::new(seed, name));
            let parsed = catch_unwind(|| Experiment::parse("x.toml", &text, None).map(|_| ()));
            match parsed.unwrap_or_else(|_| panic!("seed {seed} of {name}:\n{text}")) {
                Ok(()) => good += 1,
                Err(error) => {
                    bad += 1;
                    assert!(
                        !matches!(error, lowtail_lab::Error::Simulator { .. }),
                        "seed {seed}: {error}"
                    );
                    assert!(error.to_string().starts_with("x.toml:"), "seed {seed}: {error}");
                }
            }
        }
        assert!(bad > 100 && good > 0, "{name}: {good} good, {bad} bad");
    }
}
