//! Enums whose variants have names.

/// Declares an enum without payloads. Each variant is followed by its name in files, flags and
/// messages. The enum gets a constant `ALL` and a method `name`.
///
/// ```
/// dyno_loadgen::named_enum! {
///     /// A side.
///     #[derive(Debug, Clone, Copy, PartialEq, Eq)]
///     pub enum Side {
///         /// Left.
///         Left = "left",
///         /// Right.
///         Right = "right",
///     }
/// }
///
/// assert_eq!(Side::ALL, [Side::Left, Side::Right]);
/// assert_eq!(Side::Right.name(), "right");
/// ```
#[macro_export]
macro_rules! named_enum {
    (
        $(#[$about:meta])*
        $visibility:vis enum $type:ident {
            $($(#[$of_variant:meta])* $variant:ident = $name:literal,)+
        }
    ) => {
        $(#[$about])*
        $visibility enum $type {
            $($(#[$of_variant])* $variant),+
        }

        impl $type {
            /// All values, in the order of their declaration.
            $visibility const ALL: [Self; [$($name),+].len()] = [$(Self::$variant),+];

            /// Returns the name in files, flags and messages.
            $visibility fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name),+
                }
            }
        }
    };
}
