//! Structures that a BPF program and its loader share: members by name, compared with the program's own types (BTF) when it is
//! loaded.

use std::io;

use libbpf_rs::btf::types::{Array, DataSec, Enum, Enum64, Int, MemberAttr, Struct, Union, Var};
use libbpf_rs::btf::{Btf, BtfKind, BtfType, HasSize};

use crate::Error;

/// A value of a fixed number of bytes, as C has it in memory.
pub trait Value: Sized {
    /// How many.
    const BYTES: usize;

    /// The value at the beginning of `bytes`, of which there are [`BYTES`](Value::BYTES) at least.
    fn get(bytes: &[u8]) -> Self;

    /// Puts it at the beginning of `bytes`, of which there are [`BYTES`](Value::BYTES) at least.
    fn put(&self, bytes: &mut [u8]);
}

macro_rules! number {
    ($($type:ty)*) => {$(
        impl Value for $type {
            const BYTES: usize = size_of::<$type>();

            fn get(bytes: &[u8]) -> Self {
                bytes.first_chunk().map_or(0, |bytes| <$type>::from_ne_bytes(*bytes))
            }

            fn put(&self, bytes: &mut [u8]) {
                bytes[..Self::BYTES].copy_from_slice(&self.to_ne_bytes());
            }
        }
    )*};
}

number!(u8 u16 u32 u64);

impl<T: Value, const N: usize> Value for [T; N] {
    const BYTES: usize = N * T::BYTES;

    fn get(bytes: &[u8]) -> Self {
        std::array::from_fn(|i| T::get(&bytes[i * T::BYTES..]))
    }

    fn put(&self, bytes: &mut [u8]) {
        for (value, bytes) in self.iter().zip(bytes.chunks_exact_mut(T::BYTES)) {
            value.put(bytes);
        }
    }
}

/// A member of a structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its name in C.
    pub name: &'static str,
    /// Bytes before it.
    pub offset: usize,
    /// Bytes of it.
    pub bytes: usize,
}

/// A structure of C, made by [`shared_struct!`](crate::shared_struct).
pub trait Shared: Value {
    /// Its name in C.
    const NAME: &'static str;
    /// All of its members but for padding.
    const MEMBERS: &'static [Member];

    /// From all of its bytes; `None` if there are more or fewer.
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        (bytes.len() == Self::BYTES).then(|| Self::get(bytes))
    }

    /// All of its bytes.
    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; Self::BYTES];
        self.put(&mut bytes);
        bytes
    }
}

/// Makes a structure with the layout of C, and its [`Shared`]: `pub struct Name = "name in C" { member: u32, … }`, each member
/// by its name in C.
#[macro_export]
macro_rules! shared_struct {
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident = $c:literal {
            $($(#[$doc:meta])* $member_vis:vis $member:ident: $type:ty,)*
        }
    ) => {
        $(#[$meta])*
        #[repr(C)]
        #[derive(Clone, Copy, Debug)]
        $vis struct $name {
            $($(#[$doc])* $member_vis $member: $type,)*
        }

        impl $crate::shared::Value for $name {
            const BYTES: usize = size_of::<$name>();

            fn get(bytes: &[u8]) -> Self {
                $name {
                    $($member: $crate::shared::Value::get(
                        &bytes[std::mem::offset_of!($name, $member)..],
                    ),)*
                }
            }

            fn put(&self, bytes: &mut [u8]) {
                $($crate::shared::Value::put(
                    &self.$member,
                    &mut bytes[std::mem::offset_of!($name, $member)..],
                );)*
            }
        }

        impl $crate::shared::Shared for $name {
            const NAME: &'static str = $c;
            const MEMBERS: &'static [$crate::shared::Member] = &[
                $($crate::shared::Member {
                    name: stringify!($member),
                    offset: std::mem::offset_of!($name, $member),
                    bytes: <$type as $crate::shared::Value>::BYTES,
                },)*
            ];
        }
    };
}

/// The types of a compiled program.
#[derive(Debug)]
pub struct Layouts<'a>(Btf<'a>);

impl<'a> Layouts<'a> {
    /// Those of the object file `compiled`.
    ///
    /// # Errors
    /// If it is none, or has no types.
    pub fn of(compiled: &'a [u8]) -> Result<Self, Error> {
        libbpf_rs::set_print(None::<(libbpf_rs::PrintLevel, fn(libbpf_rs::PrintLevel, String))>);
        let read = Btf::from_raw("lowtail", compiled)
            .map_err(|source| Error::Bpf { what: "read the types of a BPF program", source })?;
        read.map(Layouts).ok_or_else(|| wrong("it has none".to_string()))
    }

    /// Compares a structure of ours with the program's.
    ///
    /// # Errors
    /// Which member is not there, is somewhere else, or has another size; or that the structure has.
    pub fn check<T: Shared>(self) -> Result<Self, Error> {
        let name = T::NAME;
        let of_program = self.named(name)?;
        for ours in T::MEMBERS {
            let (offset, bytes) = member(&self.0, &of_program, name, ours.name)?;
            if (offset, bytes) != (ours.offset, ours.bytes) {
                return Err(wrong(format!(
                    "`{}` of `struct {name}` is {bytes} bytes at {offset} there, {} at {} here",
                    ours.name, ours.bytes, ours.offset
                )));
            }
        }
        match of_program.size() {
            bytes if bytes == T::BYTES => Ok(self),
            bytes => {
                Err(wrong(format!("`struct {name}` has {bytes} bytes there, {} here", T::BYTES)))
            }
        }
    }

    /// Where a member of a structure is, and how many bytes it has.
    ///
    /// # Errors
    /// If there is no such structure, or member.
    pub fn member(&self, name: &str, member: &str) -> Result<(usize, usize), Error> {
        self::member(&self.0, &self.named(name)?, name, member)
    }

    /// Checks that a section of the program begins with this variable.
    ///
    /// # Errors
    /// If it does not.
    pub fn check_first(&self, section: &str, variable: &str) -> Result<(), Error> {
        let found = self.0.type_by_name::<DataSec<'_>>(section);
        let first = found.and_then(|of| of.iter().find(|own| own.offset == 0).map(|own| own.ty));
        let first = first.and_then(|ty| self.0.type_by_id::<Var<'_>>(ty));
        match first.and_then(|first| first.name()).is_some_and(|name| name == variable) {
            true => Ok(()),
            false => Err(wrong(format!("`{section}` does not begin with `{variable}`"))),
        }
    }

    fn named(&self, name: &str) -> Result<Struct<'_>, Error> {
        let found = self.0.type_by_name::<Struct<'_>>(name);
        found.ok_or_else(|| wrong(format!("there is no `struct {name}`")))
    }
}

fn member(
    types: &Btf<'_>,
    of: &Struct<'_>,
    name: &str,
    member: &str,
) -> Result<(usize, usize), Error> {
    let found = of.iter().find(|own| own.name.is_some_and(|own| own == member));
    let found = found.ok_or_else(|| wrong(format!("`struct {name}` has no `{member}`")))?;
    let MemberAttr::Normal { offset } = found.attr else {
        return Err(wrong(format!("`{member}` of `struct {name}` is not whole bytes")));
    };
    let ty = types.type_by_id::<BtfType<'_>>(found.ty);
    let bytes = ty.and_then(bytes_of);
    let bytes = bytes.ok_or_else(|| wrong(format!("`{member}` of `struct {name}` has no size")))?;
    Ok((offset as usize / 8, bytes))
}

/// How many bytes a value of this type has.
fn bytes_of(ty: BtfType<'_>) -> Option<usize> {
    let ty = ty.skip_mods_and_typedefs();
    match ty.kind() {
        BtfKind::Array => {
            let array = Array::try_from(ty).ok()?;
            Some(array.capacity() * bytes_of(array.contained_type())?)
        }
        BtfKind::Int => Int::try_from(ty).ok().map(|ty| ty.size()),
        BtfKind::Enum => Enum::try_from(ty).ok().map(|ty| ty.size()),
        BtfKind::Enum64 => Enum64::try_from(ty).ok().map(|ty| ty.size()),
        BtfKind::Struct => Struct::try_from(ty).ok().map(|ty| ty.size()),
        BtfKind::Union => Union::try_from(ty).ok().map(|ty| ty.size()),
        BtfKind::Ptr => Some(8),
        _ => None,
    }
}

fn wrong(why: String) -> Error {
    let source = io::Error::other(why).into();
    Error::Bpf { what: "use a BPF program whose types are not those of its loader", source }
}
