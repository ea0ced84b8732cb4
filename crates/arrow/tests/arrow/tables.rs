//! What is said of tables.

use std::collections::BTreeSet;

use lowtail_arrow::{MEANING, tables};

#[test]
fn each_column_of_each_table_says_what_it_is() {
    let tables = tables();
    let names: BTreeSet<_> = tables.iter().map(|table| (table.command, table.name)).collect();
    assert_eq!(names.len(), tables.len());
    for table in &tables {
        let fields = table.schema.fields();
        let columns: BTreeSet<&str> = fields.iter().map(|field| field.name().as_str()).collect();
        assert_eq!(columns.len(), fields.len(), "{}: a column twice", table.name);
        for field in fields {
            let meaning = &field.metadata()[MEANING];
            assert!(meaning.ends_with('.'), "{}, {}: {meaning}", table.name, field.name());
        }
    }
}
