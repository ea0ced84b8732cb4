//! All tables, for whoever describes them.

use arrow_schema::SchemaRef;

use crate::{lab, trace};

/// A table: what it is called, where it comes from, what is in it.
#[derive(Debug, Clone)]
pub struct Description {
    /// The command that writes it.
    pub command: &'static str,
    /// Its name, which is that of its file or directory.
    pub name: &'static str,
    /// What a line of it is.
    pub meaning: &'static str,
    /// Its columns; each field's metadata has its unit and what it means.
    pub schema: SchemaRef,
}

/// All tables. `rows` has further columns, which follow from the experiment.
pub fn tables() -> Vec<Description> {
    let mut tables = Vec::new();
    let mut add = |command, name, meaning, schema| {
        tables.push(Description { command, name, meaning, schema });
    };
    let run = "lowtail lab run --parquet DIR";
    add(
        run,
        "rows",
        "A row of an experiment: the figures of one distribution in one case.",
        lab::rows_schema(),
    );
    add(
        run,
        "claims",
        "A claim with its verdict, or a published figure that is not judged.",
        lab::claims_schema(),
    );
    add(
        run,
        "distributions",
        "A point of the distribution function of a row.",
        lab::distributions_schema(),
    );
    add(
        run,
        "schedules",
        "A record of the end of a case's schedule. Only with `--schedules`.",
        lab::schedules_schema(),
    );
    add(
        run,
        "queues",
        "How much waits at a port of a network from a time on. Only with `--schedules`.",
        lab::queues_schema(),
    );
    add(
        run,
        "completions",
        "A transfer of a list, where there are lists (`flows`).",
        lab::completions_schema(),
    );
    let export = "lowtail trace export --parquet DIR";
    add(export, "latency", "A vCPU, or a thread of a Linux host.", trace::latency_schema());
    add(export, "blame", "Who ran while a vCPU waited, for one reason.", trace::blame_schema());
    add(
        export,
        "smt_siblings",
        "Two vCPUs that ran on one core at the same time.",
        trace::smt_siblings_schema(),
    );
    add(export, "pcpus", "A physical CPU.", trace::pcpus_schema());
    add(export, "events", "Something that happened to a thread or vCPU.", trace::events_schema());
    add(export, "threads", "A thread or vCPU that there are events of.", trace::threads_schema());
    #[cfg(feature = "observe")]
    for (name, meaning, schema) in crate::observe::tables() {
        add("lowtail host observe --parquet DIR", name, meaning, schema);
    }
    tables
}
