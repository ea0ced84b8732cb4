//! Who uses packet mark bits.

use super::check::Command::Apply;
use super::{Check, Host, State};
use lowtail_kernel::marks::Mask;

pub(super) fn check(host: &Host) -> Check {
    let survey = (host.marks)();
    let uses: Vec<String> = survey.uses.iter().map(ToString::to_string).collect();
    let found = match uses.is_empty() {
        true => "no other user found".to_string(),
        false => format!("{}; free are {}", uses.join(", "), survey.free()),
    };
    let title = "packet mark bits";
    if let Some(why) = survey.unread.first() {
        let check = Check::ok("marks", title, format!("{found}; {why}")).needed_for(&[Apply]);
        return check.but(
            State::Note,
            "a policy with `[network] taps = true` may take bits that others use",
            "run lowtail as root; look what that program says",
        );
    }
    let check = Check::ok("marks", title, found).needed_for(&[Apply]);
    match survey.refusal(Mask::UPPER) {
        None => check,
        Some(_) => check.but(
            State::Note,
            "a policy with `[network] taps = true` needs a `mark_mask` of other bits",
            match survey.free() {
                free if free.0.count_ones() >= Mask::BITS_LEAST => format!("`mark_mask = {free}`"),
                _ => "leave out `taps`".to_string(),
            },
        ),
    }
}
