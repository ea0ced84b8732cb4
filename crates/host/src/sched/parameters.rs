//! Parameters of schedulers, each written down once: field, text of the schema, range.

/// How a file writes a parameter of this type.
macro_rules! written {
    (Duration) => {
        lowtail_config_text::DurationText
    };
    ($type:ident) => {
        $type
    };
}
pub(crate) use written;

/// The keys that a file has for a configuration: the version, which must be there, and parameters, which replace the defaults of the
/// version.
macro_rules! file_keys {
    (
        $(#[doc = $about:literal])*
        pub struct $keys:ident($version:ident) for $config:ident {
            $(
                $(#[doc = $doc:literal])*
                $(#[schemars($($range:tt)*)])?
                $field:ident: $type:ident,
            )*
        }
    ) => {
        $(#[doc = $about])*
        #[derive(Debug, Clone, serde::Deserialize, schemars::JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub struct $keys {
            /// Whose rules.
            pub version: $version,
            $(
                $(#[doc = $doc])*
                $(#[schemars($($range)*)])?
                pub $field: Option<$crate::sched::parameters::written!($type)>,
            )*
        }

        impl $keys {
            /// Names of the keys.
            pub const NAMES: &'static [&'static str] = &["version", $(stringify!($field)),*];

            /// The configuration, which is not checked.
            pub fn config(&self) -> $config {
                let mut config = $config::new(self.version.into());
                $(
                    if let Some(value) = self.$field {
                        config.$field = value.into();
                    }
                )*
                config
            }
        }
    };
}
pub(crate) use file_keys;

/// The configuration of a scheduler and its keys in files. A new parameter is a field here and its default in `new`.
macro_rules! scheduler_parameters {
    // All parameters are keys of one form.
    (
        $(#[doc = $about:literal])*
        pub struct $config:ident($version:ident);
        $(#[doc = $keys_about:literal])*
        pub struct $keys:ident;
        {
            $(
                $(#[doc = $doc:literal])*
                $(#[schemars($($range:tt)*)])?
                $field:ident: $type:ident,
            )*
        }
    ) => {
        $(#[doc = $about])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $config {
            /// Whose rules.
            pub version: $version,
            $(
                $(#[doc = $doc])*
                pub $field: $type,
            )*
        }

        $crate::sched::parameters::file_keys! {
            $(#[doc = $keys_about])*
            pub struct $keys($version) for $config {
                $(
                    $(#[doc = $doc])*
                    $(#[schemars($($range)*)])?
                    $field: $type,
                )*
            }
        }
    };
    // Two forms, `$first` and `$second`, which share some of the parameters.
    (
        $(#[doc = $about:literal])*
        pub struct $config:ident($version:ident);
        $(#[doc = $first_about:literal])*
        pub struct $first:ident($first_version:ident);
        $(#[doc = $second_about:literal])*
        pub struct $second:ident($second_version:ident);
        both {
            $(
                $(#[doc = $both_doc:literal])*
                $(#[schemars($($both_range:tt)*)])?
                $both:ident: $both_type:ident,
            )*
        }
        first {
            $(
                $(#[doc = $one_doc:literal])*
                $one:ident: $one_type:ident,
            )*
        }
        second {
            $(
                $(#[doc = $two_doc:literal])*
                $two:ident: $two_type:ident,
            )*
        }
    ) => {
        $(#[doc = $about])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $config {
            /// Whose rules.
            pub version: $version,
            $(
                $(#[doc = $both_doc])*
                pub $both: $both_type,
            )*
            $(
                $(#[doc = $one_doc])*
                pub $one: $one_type,
            )*
            $(
                $(#[doc = $two_doc])*
                pub $two: $two_type,
            )*
        }

        $crate::sched::parameters::file_keys! {
            $(#[doc = $first_about])*
            pub struct $first($first_version) for $config {
                $(
                    $(#[doc = $both_doc])*
                    $(#[schemars($($both_range)*)])?
                    $both: $both_type,
                )*
                $(
                    $(#[doc = $one_doc])*
                    $one: $one_type,
                )*
            }
        }

        $crate::sched::parameters::file_keys! {
            $(#[doc = $second_about])*
            pub struct $second($second_version) for $config {
                $(
                    $(#[doc = $both_doc])*
                    $(#[schemars($($both_range)*)])?
                    $both: $both_type,
                )*
                $(
                    $(#[doc = $two_doc])*
                    $two: $two_type,
                )*
            }
        }
    };
}
pub(crate) use scheduler_parameters;
