//! Reduces a module to the code that its entry point reaches.
//!
//! naga checks and wgpu compiles only the rest, so features used by other entry points (textures, `f16`, subgroups,
//! more buffers than the device has) do not matter. Invariant: a reduced module has one entry point, and no function,
//! variable, override, constant or type that it does not reach.

use naga::{
    Module,
    compact::{KeepUnused, compact},
    valid::{Capabilities, ModuleInfo},
};
use rustc_hash::FxHashSet;

use super::parse::{KernelError, validate};

/// Reduces a valid module to its entry point number `entry`.
pub(crate) fn reduce(source: &str, module: &mut Module, entry: usize) -> Result<(), KernelError> {
    module.entry_points = vec![module.entry_points.swap_remove(entry)];
    // naga keeps named constants.
    for (_, constant) in module.constants.iter_mut() {
        constant.name = None;
    }
    compact(module, KeepUnused::No);
    // It also keeps the result types of `frexp`, `modf` and `atomicCompareExchangeWeak`.
    if !module.special_types.predeclared_types.is_empty() {
        let info = validate(source, module, Capabilities::all())?;
        drop_result_types(module, &info);
        compact(module, KeepUnused::No);
    }
    Ok(())
}

/// Removes the result types that no expression uses.
fn drop_result_types(module: &mut Module, info: &ModuleInfo) {
    let functions = module.functions.iter().map(|(handle, function)| (function, &info[handle]));
    let entries = module.entry_points.iter().enumerate();
    let entries = entries.map(|(index, entry)| (&entry.function, info.get_entry_point(index)));
    let types = functions.chain(entries).flat_map(|(function, info)| {
        function.expressions.iter().filter_map(|(expression, _)| info[expression].ty.handle())
    });
    let used: FxHashSet<_> = types.collect();
    module.special_types.predeclared_types.retain(|_, ty| used.contains(ty));
}

#[cfg(test)]
mod tests {
    use super::{
        super::parse::{Parsed, parse},
        *,
    };

    /// Every entry point but the last uses a feature that a baseline device does not have.
    const MIXED: &str = "enable f16;
        const half: f16 = 1.5h; const halves = array<f16, 2>(1.0h, half);
        override scale: f16 = 2.0h; override needed: u32;
        struct Halves { a: vec2<f16> }
        @group(0) @binding(0) var<storage, read_write> x: array<u32>;
        @group(0) @binding(1) var<storage, read_write> h: array<Halves>;
        @group(0) @binding(2) var t: texture_2d<f32>;
        @group(0) @binding(3) var s: texture_storage_2d<r64uint, write>;
        @group(1) @binding(0) var<storage, read_write> wide: array<u64>;
        var<workgroup> shared_halves: array<f16, 4>;
        fn with_f16() -> f16 { return halves[x[0]] * scale + modf(h[0].a).fract.x; }
        @compute @workgroup_size(1) fn f16s() { shared_halves[0] = with_f16(); }
        @compute @workgroup_size(1) fn textures() { x[0] = textureDimensions(t).x; }
        @compute @workgroup_size(1) fn stores() { textureStore(s, vec2(0), vec4<u64>(1)); }
        @compute @workgroup_size(1) fn longs() { wide[0] = 1lu; }
        @compute @workgroup_size(needed) fn overridden() {}
        @compute @workgroup_size(1) fn subgroups() { x[0] = subgroupAdd(x[1]); }
        @compute @workgroup_size(1) fn plain() { x[0] = u32(frexp(f32(x[1])).exp); }
        @fragment fn shade() -> @location(0) vec4<f32> { return vec4(f32(x[0])); }";

    fn of(entry: &str, capabilities: Capabilities) -> Result<Parsed, KernelError> {
        parse(MIXED, Some(entry), &[], capabilities)
    }

    #[test]
    fn what_other_entry_points_use_does_not_count() {
        let parsed = of("plain", Capabilities::empty()).unwrap_or_else(|error| panic!("{error}"));
        let bindings: Vec<_> = parsed.interface.bindings.iter().map(|binding| binding.name.as_str()).collect();
        assert_eq!(bindings, ["x"]);
        let Module { functions, constants, overrides, global_variables, special_types, .. } = &parsed.module;
        assert_eq!((functions.len(), constants.len(), overrides.len(), global_variables.len()), (0, 0, 0, 1));
        assert_eq!(special_types.predeclared_types.len(), 1, "that of `frexp` on f32");
    }

    #[test]
    fn what_the_entry_point_uses_counts() {
        for entry in ["f16s", "textures", "stores", "longs", "overridden", "subgroups"] {
            of(entry, Capabilities::empty()).expect_err(entry);
        }
        of("f16s", Capabilities::SHADER_FLOAT16).unwrap_or_else(|error| panic!("{error}"));
    }

    #[test]
    fn all_of_the_source_must_be_valid() {
        let source = "@compute @workgroup_size(1) fn good() {}
            fn bad() { var x = 1u; loop { continuing { return; } } }";
        let error = parse(source, None, &[], Capabilities::all()).expect_err("no return there").to_string();
        assert!(error.contains("wgsl:2:"), "{error}");
    }
}
