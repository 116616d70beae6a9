//! Values for a module's `override` constants.
//!
//! Invariant: a module that comes out of [`resolve`] has no overrides, nothing that refers to one, and no array whose length
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

/// Not an identifier, so that no value can be meant for it.
const NAMELESS: &str = "array length";

/// Checked values by the key that naga looks them up with.
pub(crate) struct Values(Vec<(String, f64)>);

impl Values {
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

/// Replaces the overrides of a compact module by constants. A value for one that was compacted away is ignored.
pub(crate) fn resolve(
    source: &str,
    mut module: Module,
    values: &Values,
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
        // Types are unique and this one may exist already. The two were different types before: a name keeps them apart.
        if module.types.get(&ty).is_some() {
            ty.name = Some(format!("{NAMELESS} {}", handle.index()));
        }
        module.types.replace(handle, ty);
    }
    Ok(())
}

/// What naga looks a value up with: the `@id` where there is one.
fn key(known: &Override) -> Cow<'_, str> {
    match known.id {
        Some(id) => Cow::Owned(id.to_string()),
        None => Cow::Borrowed(known.name.as_deref().unwrap_or_default()),
    }
}

fn unknown(module: &Module, wanted: &str) -> KernelError {
    let names = list(module.overrides.iter().filter_map(|(_, known)| known.name.as_deref()));
    KernelError::Constant(match names.as_str() {
        "" => format!("no `override` constant `{wanted}`; there is none at all"),
        names => format!("no `override` constant `{wanted}`; there is: {names}"),
    })
}

/// Stricter than WebGPU, which cuts fractions off.
fn can_be(scalar: Scalar, value: f64) -> bool {
    let bits = i32::from(scalar.width) * 8;
    let whole = |low: f64, high: f64| value.fract() == 0.0 && (low..=high).contains(&value);
    match (scalar.kind, scalar.width) {
        (ScalarKind::Bool, _) => true,
        (ScalarKind::Sint, _) => whole(-2f64.powi(bits - 1), 2f64.powi(bits - 1) - 1.0),
        (ScalarKind::Uint, _) => whole(0.0, 2f64.powi(bits) - 1.0),
        // From here on a half rounds to infinity.
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
