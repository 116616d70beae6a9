//! Getters and setters, one line each, as tables: their documentation is what matters about them.
//!
//! Invariant: a getter only returns what is there already, and a setter only sets one field.

/// Public getters of `self`: name, type and value.
macro_rules! getters {
    ($self:ident: $($(#[$attribute:meta])* $name:ident: $type:ty = $value:expr;)*) => {$(
        $(#[$attribute])*
        #[must_use]
        pub fn $name(&$self) -> $type {
            $value
        }
    )*};
}

/// Public setters that take and return `self`: name, field, type of the argument, and value of the field.
macro_rules! setters {
    ($($with:ident: $field:ident: $type:ty = $value:expr;)*) => {$(
        #[doc = concat!("Sets [`", stringify!($field), "`](Self::", stringify!($field), ").")]
        #[must_use]
        pub fn $with(mut self, $field: $type) -> Self {
            self.$field = $value;
            self
        }
    )*};
}
