//! Texts of which few differ, in long columns: each row has a number, and each text stands once.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::builder::PrimitiveBuilder;
use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, DictionaryArray, StringArray};
use arrow_schema::DataType;

/// A column of such texts in the making.
#[derive(Default)]
pub(crate) struct Words {
    keys: PrimitiveBuilder<Int32Type>,
    texts: Vec<String>,
    known: HashMap<String, i32>,
}

impl Words {
    /// Its type.
    pub(crate) fn data_type() -> DataType {
        DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
    }

    pub(crate) fn with_capacity(rows: usize) -> Self {
        Words { keys: PrimitiveBuilder::with_capacity(rows), ..Words::default() }
    }

    /// The number of a text.
    pub(crate) fn key(&mut self, text: &str) -> i32 {
        if let Some(&key) = self.known.get(text) {
            return key;
        }
        let key = i32::try_from(self.texts.len()).expect("fewer than 2^31 texts");
        self.texts.push(text.to_owned());
        self.known.insert(text.to_owned(), key);
        key
    }

    /// The text with this number in the next row, or none.
    pub(crate) fn push(&mut self, key: Option<i32>) {
        self.keys.append_option(key);
    }

    /// `text` in each of the next rows.
    pub(crate) fn repeat(&mut self, text: &str, rows: usize) {
        let key = self.key(text);
        self.keys.append_value_n(key, rows);
    }

    /// All, as a column.
    pub(crate) fn array(mut self) -> ArrayRef {
        let texts = StringArray::from_iter_values(&self.texts);
        let column = DictionaryArray::try_new(self.keys.finish(), Arc::new(texts));
        Arc::new(column.expect("each number is that of a text"))
    }
}
