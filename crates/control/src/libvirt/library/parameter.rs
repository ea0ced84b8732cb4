//! Numbers with names and types, as libvirt has them for schedulers.

use std::ffi::{c_char, c_int};

/// `VIR_TYPED_PARAM_FIELD_LENGTH`.
const NAME_BYTES: usize = 80;

/// `virTypedParameter`. The value is a union of at most eight bytes at the place of a `long long`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct TypedParameter {
    field: [c_char; NAME_BYTES],
    kind: c_int,
    value: u64,
}

/// A number with its type, as libvirt asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Number {
    Int(i32),
    UInt(u32),
    LLong(i64),
    ULLong(u64),
}

impl TypedParameter {
    /// Room for one.
    pub(super) const EMPTY: Self = TypedParameter { field: [0; NAME_BYTES], kind: 0, value: 0 };

    pub(super) fn new(name: &str, number: Number) -> Self {
        let mut field = [0; NAME_BYTES];
        // The last byte stays a zero.
        for (to, from) in field[..NAME_BYTES - 1].iter_mut().zip(name.bytes()) {
            *to = from as c_char;
        }
        // `virTypedParameterType`. A shorter number is at the beginning of the union.
        let low = |bytes: [u8; 4]| {
            let mut all = [0; 8];
            all[..4].copy_from_slice(&bytes);
            u64::from_ne_bytes(all)
        };
        let (kind, value) = match number {
            Number::Int(n) => (1, low(n.to_ne_bytes())),
            Number::UInt(n) => (2, low(n.to_ne_bytes())),
            Number::LLong(n) => (3, u64::from_ne_bytes(n.to_ne_bytes())),
            Number::ULLong(n) => (4, n),
        };
        TypedParameter { field, kind, value }
    }

    /// Name and number, if it is a number.
    pub(super) fn named(&self) -> Option<(String, Number)> {
        let [a, b, c, d, ..] = self.value.to_ne_bytes();
        let number = match self.kind {
            1 => Number::Int(i32::from_ne_bytes([a, b, c, d])),
            2 => Number::UInt(u32::from_ne_bytes([a, b, c, d])),
            3 => Number::LLong(i64::from_ne_bytes(self.value.to_ne_bytes())),
            4 => Number::ULLong(self.value),
            _ => return None,
        };
        let name: Vec<u8> = self.field.iter().map(|&c| c as u8).take_while(|&c| c != 0).collect();
        Some((String::from_utf8_lossy(&name).into_owned(), number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `virTypedParameter` of `libvirt-common.h`: 80 characters, an `int`, a union with a `long long`.
    #[test]
    fn parameters_are_laid_out_as_in_c() {
        assert_eq!(std::mem::offset_of!(TypedParameter, kind), 80);
        assert_eq!(
            std::mem::offset_of!(TypedParameter, value),
            84_usize.next_multiple_of(align_of::<u64>())
        );
        for number in
            [Number::Int(-7), Number::UInt(u32::MAX), Number::LLong(-1), Number::ULLong(u64::MAX)]
        {
            assert_eq!(TypedParameter::new("a", number).named(), Some(("a".to_string(), number)));
        }
        let long = "x".repeat(100);
        let (name, _) = TypedParameter::new(&long, Number::Int(0)).named().expect("a number");
        assert_eq!(name.len(), NAME_BYTES - 1);
        assert_eq!(
            TypedParameter { kind: 7, ..TypedParameter::new("s", Number::Int(0)) }.named(),
            None
        );
    }
}
