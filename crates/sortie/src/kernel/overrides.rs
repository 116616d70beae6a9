//! Values for a module's `override` constants.
//!
//! Invariant: a module returned by [`resolve`] has no overrides, no references to them, and no array whose length
//! depends on one.

use std::{borrow::Cow, num::NonZeroU32};

use naga::{
    Arena, ArraySize, Module, Override, Scalar, ScalarKind, TypeInner,
    back::{
        PipelineConstants,
        pipeline_constants::{PipelineConstantError, process_overrides},
    },
    proc::IndexableLength,
    valid::Capabilities,
};

use super::parse::{KernelError, list, validate};

/// Not an identifier, so no value can be given for it.
const NAMELESS: &str = "array length";

/// Checked values, by naga's lookup key.
pub(crate) struct OverrideValues(Vec<(String, f64)>);

impl OverrideValues {
    /// Finds the override for each of `constants`, given by name or by `@id`.
    pub(crate) fn new(module: &Module, constants: &[(String, f64)]) -> Result<Self, KernelError> {
        let mut values: Vec<(String, f64)> = Vec::with_capacity(constants.len());
        for (wanted, value) in constants {
            let id = wanted.parse::<u16>().ok();
            let mut overrides = module.overrides.iter().map(|(_, known)| known);
            let found = overrides
                .find(|known| known.name.as_deref() == Some(wanted.as_str()) || (id.is_some() && known.id == id));
            let Some(found) = found else { return Err(unknown(module, wanted)) };
            if let TypeInner::Scalar(scalar) = module.types[found.ty].inner
                && !can_be(scalar, *value)
            {
                let message =
                    format!("`override` constant `{wanted}` is {} and cannot be {value}", scalar_name(scalar));
                return Err(KernelError::Constant(message));
            }
            let key = key(found).into_owned();
            if values.iter().any(|(earlier, _)| *earlier == key) {
                return Err(KernelError::Constant(format!("`override` constant `{wanted}` is given twice")));
            }
            values.push((key, *value));
        }
        Ok(Self(values))
    }
}

/// Replaces the overrides of a compact module by constants. Values for overrides that were removed by compaction are
/// ignored.
pub(crate) fn resolve(
    source: &str,
    mut module: Module,
    values: &OverrideValues,
    capabilities: Capabilities,
) -> Result<Module, KernelError> {
    if module.overrides.is_empty() {
        return Ok(module);
    }
    let mut constants = PipelineConstants::default();
    for (_, known) in module.overrides.iter_mut() {
        // `array<f32, n + 1>` makes an override without a name, on which naga's `process_overrides` panics.
        let name = known.name.get_or_insert_with(|| NAMELESS.into()).clone();
        let key = key(known);
        match values.0.iter().find(|(given, _)| *given == key) {
            Some((_, value)) => drop(constants.insert(key.into_owned(), *value)),
            None if known.init.is_some() => {}
            None => {
                return Err(KernelError::Constant(format!(
                    "`override` constant `{name}` has no default and needs a value"
                )));
            }
        }
    }
    let info = validate(source, &module, capabilities)?;
    let processed = process_overrides(&module, &info, None, &constants).map(|(module, _)| module.into_owned());
    let mut module = processed.map_err(|error| match error {
        PipelineConstantError::ValidationError(error) => {
            KernelError::Shader(error.emit_to_string(source).trim_end().to_owned())
        }
        error => KernelError::Constant(error.to_string()),
    })?;
    fix_lengths(&mut module)?;
    module.overrides = Arena::new();
    Ok(module)
}

/// Writes the lengths of arrays into their types; naga leaves them as references to overrides.
fn fix_lengths(module: &mut Module) -> Result<(), KernelError> {
    let handles: Vec<_> = module.types.iter().map(|(handle, _)| handle).collect();
    for handle in handles {
        let mut ty = module.types[handle].clone();
        let TypeInner::Array { ref mut size, .. } = ty.inner else { continue };
        if !matches!(size, ArraySize::Pending(_)) {
            continue;
        }
        let length = match size.resolve(module.to_ctx()) {
            Ok(IndexableLength::Known(length)) => NonZeroU32::new(length),
            _ => None,
        };
        let length = length.ok_or_else(|| KernelError::Constant("an array's length is not positive".into()))?;
        *size = ArraySize::Constant(length);
        // Types are unique, and this one may exist already. The two were different types before, so a name keeps them
        // distinct.
        if module.types.get(&ty).is_some() {
            ty.name = Some(format!("{NAMELESS} {}", handle.index()));
        }
        module.types.replace(handle, ty);
    }
    Ok(())
}

/// naga's lookup key: the `@id` if there is one.
fn key(known: &Override) -> Cow<'_, str> {
    match known.id {
        Some(id) => Cow::Owned(id.to_string()),
        None => Cow::Borrowed(known.name.as_deref().unwrap_or_default()),
    }
}

fn unknown(module: &Module, wanted: &str) -> KernelError {
    let names = list(module.overrides.iter().filter_map(|(_, known)| known.name.as_deref()));
    KernelError::Constant(match names.as_str() {
        "" => format!("no `override` constant `{wanted}`; the module declares none"),
        names => format!("no `override` constant `{wanted}`; there is: {names}"),
    })
}

/// Stricter than WebGPU, which truncates fractions.
fn can_be(scalar: Scalar, value: f64) -> bool {
    let bits = i32::from(scalar.width) * 8;
    let whole = |low: f64, high: f64| value.fract() == 0.0 && (low..=high).contains(&value);
    match (scalar.kind, scalar.width) {
        (ScalarKind::Bool, _) => true,
        (ScalarKind::Sint, _) => whole(-2f64.powi(bits - 1), 2f64.powi(bits - 1) - 1.0),
        (ScalarKind::Uint, _) => whole(0.0, 2f64.powi(bits) - 1.0),
        // Larger values round to infinity in a half.
        (_, 2) => value.abs() < 65_520.0,
        (_, 4) => (value as f32).is_finite(),
        _ => value.is_finite(),
    }
}

fn scalar_name(scalar: Scalar) -> String {
    let kind = match scalar.kind {
        ScalarKind::Bool => return "bool".into(),
        ScalarKind::Sint => 'i',
        ScalarKind::Uint => 'u',
        ScalarKind::Float | ScalarKind::AbstractInt | ScalarKind::AbstractFloat => 'f',
    };
    format!("{kind}{}", u32::from(scalar.width) * 8)
}

#[cfg(test)]
mod tests {
    use super::{
        super::parse::{Parsed, parse},
        *,
    };

    const SOURCE: &str = "override wg: u32 = 64;
        @id(7) override scale: f32 = 2.0;
        override on: bool = false;
        override tile: i32;
        var<workgroup> a: array<f32, wg>;
        var<workgroup> b: array<f32, wg * 2 + 1>;
        var<workgroup> c: array<f32, 64>;
        @group(0) @binding(0) var<storage, read_write> x: array<f32>;
        @compute @workgroup_size(wg, wg / 32) fn main(@builtin(local_invocation_index) i: u32) {
            a[i] = scale; b[i] = a[i]; c[i] = b[i];
            if on { x[i] = c[i]; }
        }
        @compute @workgroup_size(1) fn tiled() { x[0] = f32(tile); }";

    fn with(entry: &str, constants: &[(&str, f64)]) -> Result<Parsed, KernelError> {
        let constants: Vec<_> = constants.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        parse(SOURCE, Some(entry), &constants, Capabilities::all())
    }

    fn error(entry: &str, constants: &[(&str, f64)]) -> String {
        with(entry, constants).expect_err("refused").to_string()
    }

    #[test]
    fn defaults_decide_the_workgroup_size_and_memory() {
        let parsed = with("main", &[]).expect("valid");
        assert_eq!(parsed.interface.workgroup, [64, 2, 1]);
        assert_eq!(parsed.interface.workgroup_bytes, 256 + 528 + 256);
    }

    #[test]
    fn values_replace_defaults_by_name_or_id() {
        let parsed = with("main", &[("wg", 128.0), ("7", 0.5), ("on", 1.0)]).expect("valid");
        assert_eq!(parsed.interface.workgroup, [128, 4, 1]);
        assert_eq!(parsed.interface.workgroup_bytes, 512 + 1040 + 256);
        with("main", &[("scale", 0.5)]).expect("a name is as good as its id");
    }

    #[test]
    fn nothing_of_the_overrides_is_left() {
        let parsed = with("main", &[]).expect("valid");
        assert!(parsed.module.overrides.is_empty());
        let pending = |ty: &naga::Type| matches!(ty.inner, TypeInner::Array { size: ArraySize::Pending(_), .. });
        assert!(!parsed.module.types.iter().any(|(_, ty)| pending(ty)));
        assert_eq!(parsed.module.entry_points[0].workgroup_size_overrides, None);
    }

    #[test]
    fn an_override_after_an_array_of_computed_length_is_resolved() {
        // naga panics on this one unless the length's own override gets a name.
        let source = "override a: u32 = 4; var<workgroup> w: array<u32, a * 2>; override b: u32 = 8;
            @compute @workgroup_size(b) fn main() { w[0] = 1; }";
        let parsed = parse(source, None, &[], Capabilities::all()).expect("valid");
        assert_eq!((parsed.interface.workgroup, parsed.interface.workgroup_bytes), ([8, 1, 1], 32));
    }

    #[test]
    fn an_override_that_the_entry_point_does_not_use_needs_no_value() {
        with("main", &[]).expect("`tile` is not needed");
        with("tiled", &[("tile", -3.0), ("wg", 1.0)]).expect("`wg` may be given");
        assert_eq!(error("tiled", &[]), "`override` constant `tile` has no default and needs a value");
    }

    #[test]
    fn unknown_and_repeated_constants_are_errors() {
        assert_eq!(
            error("main", &[("width", 1.0)]),
            "no `override` constant `width`; there is: `wg`, `scale`, `on`, `tile`"
        );
        assert_eq!(error("main", &[("scale", 1.0), ("7", 2.0)]), "`override` constant `7` is given twice");
        let bare = "@compute @workgroup_size(1) fn main() {}";
        let none = parse(bare, None, &[("n".to_owned(), 1.0)], Capabilities::all()).expect_err("none");
        assert_eq!(none.to_string(), "no `override` constant `n`; the module declares none");
    }

    #[test]
    fn values_that_do_not_fit_the_type_are_errors_that_name_it() {
        assert_eq!(error("main", &[("wg", 2.5)]), "`override` constant `wg` is u32 and cannot be 2.5");
        for (name, value) in
            [("wg", -1.0), ("wg", 4294967296.0), ("wg", f64::NAN), ("tile", 2147483648.0), ("scale", 1e39)]
        {
            assert!(error("main", &[(name, value)]).contains(name), "{name} {value}");
        }
    }

    #[test]
    fn workgroup_sizes_and_lengths_of_zero_are_errors() {
        error("main", &[("wg", 0.0)]);
        let source = "override n: i32 = 4; var<workgroup> w: array<u32, n - 4>;
            @compute @workgroup_size(1) fn main() { w[0] = 1; }";
        parse(source, None, &[], Capabilities::all()).expect_err("an empty array");
        parse(source, None, &[("n".into(), 3.0)], Capabilities::all()).expect_err("a negative array");
    }
}
