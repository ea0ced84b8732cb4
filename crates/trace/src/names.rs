//! Names of trace classes and events, for people.
//!
//! Sources: `xen/include/public/trace.h` (4.20) and the `TRC_*` lists at the head of each
//! scheduler in `xen/common/sched/`. Names are Xen's, in lower case and without `TRC_`.

use crate::record::{Runstate, event};

/// The class of an event, by the one bit that Xen sets for it in bits 16 to 27.
pub fn class(number: u32) -> &'static str {
    match number >> 16 & 0xfff {
        0x001 => "gen",
        0x002 => "sched",
        0x004 => "dom0op",
        0x008 => "hvm",
        0x010 => "mem",
        0x020 => "pv",
        0x040 => "shadow",
        0x080 => "hw",
        0x800 => "guest",
        _ => "unknown",
    }
}

/// The name of an event, if it has one.
pub fn event(number: u32) -> Option<&'static str> {
    if let Some((old, new)) = Runstate::change(number) {
        return Some(runstate(old, new));
    }
    Some(match number {
        event::LOST_RECORDS => "lost_records",
        event::WRAP_BUFFER => "trace_wrap_buffer",
        event::CPU_CHANGE => "trace_cpu_change",
        event::CONTINUE_RUNNING => "sched_continue_running",
        0x0002_2000..=0x0002_2fff => return scheduler(number),
        0x0002_8001..=0x0002_8011 => verbose(number),
        0x0004_1001 => "dom0_dom_add",
        0x0004_1002 => "dom0_dom_rem",
        0x0008_0000..=0x0008_ffff => return hvm(number),
        0x0010_f001 => "mem_page_grant_map",
        0x0010_f002 => "mem_page_grant_unmap",
        0x0010_f003 => "mem_page_grant_transfer",
        0x0010_f004 => "mem_set_p2m_entry",
        0x0010_f005 => "mem_decrease_reservation",
        0x0010_f010 => "mem_pod_populate",
        0x0010_f011 => "mem_pod_zero_reclaim",
        0x0010_f012 => "mem_pod_superpage_splinter",
        0x0020_1001..=0x0020_11ff | 0x0020_200e => return pv(number),
        0x0040_f001..=0x0040_f1ff => return shadow(number),
        0x0080_1001 => "pm_freq_change",
        0x0080_1002 => "pm_idle_entry",
        0x0080_1003 => "pm_idle_exit",
        0x0080_2001 => "hw_irq_move_cleanup_delay",
        0x0080_2002 => "hw_irq_move_cleanup",
        0x0080_2003 => "hw_irq_bind_vector",
        0x0080_2004 => "hw_irq_clear_vector",
        0x0080_2005 => "hw_irq_move_finish",
        0x0080_2006 => "hw_irq_assign_vector",
        0x0080_2007 => "hw_irq_unmapped_vector",
        0x0080_2008 => "hw_irq_handled",
        _ => return None,
    })
}

fn runstate(old: Runstate, new: Runstate) -> &'static str {
    use Runstate::{Blocked, Offline, Runnable, Running};
    match (old, new) {
        (Running, Running) => "runstate running>running",
        (Running, Runnable) => "runstate running>runnable",
        (Running, Blocked) => "runstate running>blocked",
        (Running, Offline) => "runstate running>offline",
        (Runnable, Running) => "runstate runnable>running",
        (Runnable, Runnable) => "runstate runnable>runnable",
        (Runnable, Blocked) => "runstate runnable>blocked",
        (Runnable, Offline) => "runstate runnable>offline",
        (Blocked, Running) => "runstate blocked>running",
        (Blocked, Runnable) => "runstate blocked>runnable",
        (Blocked, Blocked) => "runstate blocked>blocked",
        (Blocked, Offline) => "runstate blocked>offline",
        (Offline, Running) => "runstate offline>running",
        (Offline, Runnable) => "runstate offline>runnable",
        (Offline, Blocked) => "runstate offline>blocked",
        (Offline, Offline) => "runstate offline>offline",
    }
}

fn verbose(number: u32) -> &'static str {
    const NAMES: [&str; 17] = [
        "sched_dom_add",
        "sched_dom_rem",
        "sched_sleep",
        "sched_wake",
        "sched_yield",
        "sched_block",
        "sched_shutdown",
        "sched_ctl",
        "sched_adjdom",
        "sched_switch",
        "sched_s_timer_fn",
        "sched_t_timer_fn",
        "sched_dom_timer_fn",
        "sched_switch_infprev",
        "sched_switch_infnext",
        "sched_shutdown_code",
        "sched_switch_infcont",
    ];
    NAMES[(number & 0xff) as usize % 18 - 1]
}

fn pick(names: &[&'static str], index: u32) -> Option<&'static str> {
    names.get(index as usize).copied().filter(|name| !name.is_empty())
}

/// Events of the schedulers proper: the scheduler in bits 9 to 11, its event below.
fn scheduler(number: u32) -> Option<&'static str> {
    const CREDIT: [&str; 12] = [
        "",
        "csched_sched_tasklet",
        "csched_account_start",
        "csched_account_stop",
        "csched_stolen_unit",
        "csched_picked_cpu",
        "csched_tickle",
        "csched_boost_start",
        "csched_boost_end",
        "csched_schedule",
        "csched_ratelimit",
        "csched_steal_check",
    ];
    const CREDIT2: [&str; 24] = [
        "",
        "csched2_tick",
        "csched2_runq_pos",
        "csched2_credit_burn",
        "csched2_credit_add",
        "csched2_tickle_check",
        "csched2_tickle",
        "csched2_credit_reset",
        "csched2_sched_tasklet",
        "csched2_update_load",
        "csched2_runq_assign",
        "csched2_update_unit_load",
        "csched2_update_runq_load",
        "csched2_tickle_new",
        "csched2_runq_max_weight",
        "csched2_migrate",
        "csched2_load_check",
        "csched2_load_balance",
        "",
        "csched2_picked_cpu",
        "csched2_runq_candidate",
        "csched2_schedule",
        "csched2_ratelimit",
        "csched2_runq_cand_check",
    ];
    const RTDS: [&str; 7] = [
        "",
        "rtds_tickle",
        "rtds_runq_pick",
        "rtds_budget_burn",
        "rtds_budget_replenish",
        "rtds_sched_tasklet",
        "rtds_schedule",
    ];
    const NULL: [&str; 7] = [
        "",
        "snull_picked_cpu",
        "snull_unit_assign",
        "snull_unit_deassign",
        "snull_migrate",
        "snull_schedule",
        "snull_tasklet",
    ];
    match number >> 9 & 7 {
        0 => pick(&CREDIT, number & 0x1ff),
        1 => pick(&CREDIT2, number & 0x1ff),
        4 => pick(&RTDS, number & 0x1ff),
        5 => pick(&NULL, number & 0x1ff),
        _ => None,
    }
}

fn hvm(number: u32) -> Option<&'static str> {
    // Bit 8 tells records with 64-bit addresses, bit 10 those of nested guests.
    Some(match (number >> 12 & 0xf, number & 0xff) {
        (1, 0x01) => "hvm_vmentry",
        (1, 0x02) => "hvm_vmx_exit",
        (1, 0x03) => "hvm_svm_exit",
        (2, 0x01..=0x27) => "hvm_handler",
        (4, 0x01..=0x11) => "hvm_emulated_device",
        _ => return None,
    })
}

fn pv(number: u32) -> Option<&'static str> {
    Some(match number & 0xff {
        1 => "pv_hypercall",
        3 => "pv_trap",
        4 => "pv_page_fault",
        5 => "pv_forced_invalid_op",
        6 => "pv_emulate_privop",
        7 => "pv_emulate_4gb",
        8 => "pv_math_state_restore",
        9 => "pv_paging_fixup",
        10 => "pv_gdt_ldt_mapping_fault",
        11 => "pv_ptwr_emulation",
        12 => "pv_ptwr_emulation_pae",
        13 => "pv_hypercall_v2",
        14 => "pv_hypercall_subcall",
        _ => return None,
    })
}

fn shadow(number: u32) -> Option<&'static str> {
    matches!(number & 0xff, 1..=15).then_some("shadow")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        assert_eq!(event(0x2_2216), Some("csched2_ratelimit"));
        assert_eq!(event(0x2_200a), Some("csched_ratelimit"));
        assert_eq!(event(0x2_8004), Some("sched_wake"));
        assert_eq!(event(0x2_8011), Some("sched_switch_infcont"));
        assert_eq!(event(0x2_1211), Some("runstate blocked>runnable"));
        assert_eq!(event(0x2_2212), None);
        assert_eq!(event(0x2_8012), None);
        assert_eq!((class(0x2_8012), class(0x3_0000)), ("sched", "unknown"));
    }

    #[test]
    fn every_number_is_looked_up_without_a_panic() {
        (0..1 << 28).step_by(7).for_each(|number| {
            let _ = (class(number), event(number));
        });
    }
}
