//! Variants of a kernel's entry point, built in naga's IR: immediates moved to a buffer, and a wrapper that runs a
//! folded grid. Storage buffers get the access that the interface states.
//!
//! Variants add one bind group above the kernel's own: the immediates at binding 0, the grid's parameter block (see
//! `fold`) at binding 1.
//!
//! Invariant: a rewrite of a valid module is valid, with one exception: immediates as a uniform, where the layout rules
//! are stricter ([`immediates_fit_uniform`] checks them). The entry point keeps its name and its workgroup size.

use naga::{
    AddressSpace, BinaryOperator, Binding, Block, BuiltIn, EntryPoint, Expression, Function, FunctionArgument,
    GlobalVariable, Handle, Literal, MemoryDecorations, Module, Range, ResourceBinding, Scalar, Span, Statement,
    StorageAccess, StructMember, Type, TypeInner, VectorSize, valid::Capabilities,
};

use sortie_plan::GRID_BLOCK;

use super::{
    interface::{Interface, set_access},
    parse::{Parsed, validate},
};

/// The address space of `var<immediate>` in the rewritten module.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum ImmediatesAs {
    Native,
    Uniform,
    Storage,
}

/// A rewrite of a kernel.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Variant {
    pub(crate) immediates: ImmediatesAs,
    /// The entry point takes its grid from the parameter block instead of the dispatch.
    pub(crate) wrapped: bool,
}

/// Creates a variant of a kernel. What it adds is in [`Interface::hidden_group`].
pub(crate) fn rewrite(module: &Module, interface: &Interface, variant: Variant) -> Module {
    let mut module = module.clone();
    set_access(&mut module, interface);
    let hidden_group = interface.hidden_group();
    move_immediates(&mut module, variant.immediates, ResourceBinding { group: hidden_group, binding: 0 });
    if variant.wrapped {
        wrap(&mut module, ResourceBinding { group: hidden_group, binding: 1 });
    }
    module
}

/// Whether the layout of the kernel's immediates is valid for `var<uniform>`; arrays of scalars, for example, are not.
pub(crate) fn immediates_fit_uniform(parsed: &Parsed, capabilities: Capabilities) -> bool {
    let Parsed { module, interface, .. } = parsed;
    let rewritten = rewrite(module, interface, Variant { immediates: ImmediatesAs::Uniform, wrapped: false });
    validate("", &rewritten, capabilities).is_ok()
}

/// Returns the name of the variable.
pub(super) fn move_immediates(module: &mut Module, to: ImmediatesAs, at: ResourceBinding) -> Option<String> {
    let space = match to {
        ImmediatesAs::Native => return None,
        ImmediatesAs::Uniform => AddressSpace::Uniform,
        ImmediatesAs::Storage => AddressSpace::Storage { access: StorageAccess::LOAD },
    };
    let mut name = None;
    for (_, var) in module.global_variables.iter_mut().filter(|(_, var)| var.space == AddressSpace::Immediate) {
        (var.space, var.binding) = (space, Some(at));
        name.clone_from(&var.name);
    }
    name
}

/// Turns the entry point into an ordinary function. A new entry point computes the original ids and calls it.
fn wrap(module: &mut Module, at: ResourceBinding) {
    let types = Types::new(module);
    let grid = module.global_variables.append(
        GlobalVariable {
            name: Some("sortie_grid".into()),
            space: AddressSpace::Uniform,
            binding: Some(at),
            ty: types.grid,
            init: None,
            memory_decorations: MemoryDecorations::empty(),
        },
        Span::UNDEFINED,
    );
    let EntryPoint { name, workgroup_size, function: mut body, .. } = module.entry_points.swap_remove(0);
    let bindings: Vec<_> = body.arguments.iter_mut().map(|argument| argument.binding.take()).collect();
    let arguments: Vec<_> = body.arguments.iter().map(|argument| argument.ty).zip(bindings).collect();
    body.name = Some(format!("{name}_body"));
    let body = module.functions.append(body, Span::UNDEFINED);

    let mut wrapper = Wrapper::new(Code::new(&name), types, workgroup_size, grid);
    let arguments = arguments.into_iter().map(|(ty, binding)| wrapper.value(module, ty, binding.as_ref())).collect();
    let mut code = wrapper.code;
    code.push(Statement::Call { function: body, arguments, result: None });
    code.push(Statement::Return { value: None });
    module.entry_points.push(EntryPoint {
        name,
        stage: naga::ShaderStage::Compute,
        early_depth_test: None,
        workgroup_size,
        workgroup_size_overrides: None,
        function: code.function,
        mesh_info: None,
        task_payload: None,
        incoming_ray_payload: None,
    });
}

#[derive(Clone, Copy)]
struct Types {
    uint3: Handle<Type>,
    grid: Handle<Type>,
}

impl Types {
    fn new(module: &mut Module) -> Self {
        let mut insert = |name: Option<&str>, inner| {
            module.types.insert(Type { name: name.map(Into::into), inner }, Span::UNDEFINED)
        };
        let uint = insert(None, TypeInner::Scalar(Scalar::U32));
        let uint3 = insert(None, TypeInner::Vector { size: VectorSize::Tri, scalar: Scalar::U32 });
        let member = |name: &str, ty, offset| StructMember { name: Some(name.into()), ty, binding: None, offset };
        let members = vec![member("groups", uint3, 0), member("base", uint, 12), member("total", uint, 16)];
        let grid = insert(Some("SortieGrid"), TypeInner::Struct { members, span: GRID_BLOCK as u32 });
        Self { uint3, grid }
    }
}

/// Values for the kernel's arguments, emitted into the new entry point on demand.
struct Wrapper {
    code: Code,
    types: Types,
    workgroup_size: [u32; 3],
    /// The grid as the kernel sees it, and the linear index of this group in it.
    groups: Handle<Expression>,
    linear: Handle<Expression>,
    workgroup_id: Option<Handle<Expression>>,
    invocation_id: Option<Handle<Expression>>,
}

impl Wrapper {
    /// Emits `linear = base + id.x + n.x * (id.y + n.y * id.z)` and the early return, which is uniform across a
    /// workgroup.
    fn new(mut code: Code, types: Types, workgroup_size: [u32; 3], grid: Handle<GlobalVariable>) -> Self {
        let id = code.builtin(BuiltIn::WorkGroupId, types.uint3);
        let count = code.builtin(BuiltIn::NumWorkGroups, types.uint3);
        let grid = code.append(Expression::GlobalVariable(grid));
        let [groups, base, total] = [0, 1, 2].map(|index| {
            let pointer = code.member(grid, index);
            code.emit(Expression::Load { pointer })
        });
        let [x, y, z] = [0, 1, 2].map(|index| code.member(id, index));
        let [columns, rows] = [0, 1].map(|index| code.member(count, index));
        let layer = code.binary(BinaryOperator::Multiply, rows, z);
        let row = code.binary(BinaryOperator::Add, y, layer);
        let row_start = code.binary(BinaryOperator::Multiply, columns, row);
        let offset = code.binary(BinaryOperator::Add, x, row_start);
        let linear = code.binary(BinaryOperator::Add, base, offset);
        let condition = code.binary(BinaryOperator::GreaterEqual, linear, total);
        let accept = Block::from_vec(vec![Statement::Return { value: None }]);
        code.push(Statement::If { condition, accept, reject: Block::new() });
        Self { code, types, workgroup_size, groups, linear, workgroup_id: None, invocation_id: None }
    }

    /// The value of the kernel's argument of type `ty`: a built-in, or a struct of them.
    fn value(&mut self, module: &Module, ty: Handle<Type>, binding: Option<&Binding>) -> Handle<Expression> {
        match (binding, &module.types[ty].inner) {
            (Some(Binding::BuiltIn(BuiltIn::WorkGroupId)), _) => self.workgroup_id(),
            (Some(Binding::BuiltIn(BuiltIn::GlobalInvocationId)), _) => self.invocation_id(),
            (Some(Binding::BuiltIn(BuiltIn::NumWorkGroups)), _) => self.groups,
            (Some(Binding::BuiltIn(builtin)), _) => self.code.builtin(*builtin, ty),
            (None, TypeInner::Struct { members, .. }) => {
                let values = members.iter().map(|member| self.value(module, member.ty, member.binding.as_ref()));
                let components = values.collect();
                self.code.emit(Expression::Compose { ty, components })
            }
            (binding, inner) => unreachable!("naga let an entry point take {inner:?} with {binding:?}"),
        }
    }

    /// `(linear % x, linear / x % y, linear / x / y)`: divided step by step, because a product might overflow.
    fn workgroup_id(&mut self) -> Handle<Expression> {
        if let Some(id) = self.workgroup_id {
            return id;
        }
        let code = &mut self.code;
        let [columns, rows] = [0, 1].map(|index| code.member(self.groups, index));
        let x = code.binary(BinaryOperator::Modulo, self.linear, columns);
        let row = code.binary(BinaryOperator::Divide, self.linear, columns);
        let y = code.binary(BinaryOperator::Modulo, row, rows);
        let z = code.binary(BinaryOperator::Divide, row, rows);
        let id = code.emit(Expression::Compose { ty: self.types.uint3, components: vec![x, y, z] });
        *self.workgroup_id.insert(id)
    }

    /// `workgroup_id * workgroup_size + local_invocation_id`
    fn invocation_id(&mut self) -> Handle<Expression> {
        if let Some(id) = self.invocation_id {
            return id;
        }
        let group = self.workgroup_id();
        let code = &mut self.code;
        let local = code.builtin(BuiltIn::LocalInvocationId, self.types.uint3);
        let size = self.workgroup_size.map(|size| code.append(Expression::Literal(Literal::U32(size))));
        let size = code.emit(Expression::Compose { ty: self.types.uint3, components: size.to_vec() });
        let first = code.binary(BinaryOperator::Multiply, group, size);
        let id = code.binary(BinaryOperator::Add, first, local);
        *self.invocation_id.insert(id)
    }
}

/// A function being emitted.
struct Code {
    function: Function,
    builtins: Vec<BuiltIn>,
}

impl Code {
    fn new(name: &str) -> Self {
        Self { function: Function { name: Some(name.into()), ..Function::default() }, builtins: Vec::new() }
    }

    /// A built-in argument; an entry point may take each only once.
    fn builtin(&mut self, builtin: BuiltIn, ty: Handle<Type>) -> Handle<Expression> {
        let taken = self.builtins.iter().position(|taken| *taken == builtin);
        let index = taken.unwrap_or_else(|| {
            self.builtins.push(builtin);
            let binding = Some(Binding::BuiltIn(builtin));
            self.function.arguments.push(FunctionArgument { name: None, ty, binding });
            self.builtins.len() - 1
        });
        self.append(Expression::FunctionArgument(index as u32))
    }

    fn member(&mut self, base: Handle<Expression>, index: u32) -> Handle<Expression> {
        self.emit(Expression::AccessIndex { base, index })
    }

    fn binary(
        &mut self,
        op: BinaryOperator,
        left: Handle<Expression>,
        right: Handle<Expression>,
    ) -> Handle<Expression> {
        self.emit(Expression::Binary { op, left, right })
    }

    fn emit(&mut self, expression: Expression) -> Handle<Expression> {
        let value = self.append(expression);
        self.push(Statement::Emit(Range::new_from_bounds(value, value)));
        value
    }

    /// Appends an expression that needs no `Emit`: arguments, variables, literals.
    fn append(&mut self, expression: Expression) -> Handle<Expression> {
        self.function.expressions.append(expression, Span::UNDEFINED)
    }

    fn push(&mut self, statement: Statement) {
        self.function.body.push(statement, Span::UNDEFINED);
    }
}

#[cfg(test)]
mod tests {
    use naga::{back, valid::ModuleInfo};

    use super::{super::parse::parse, *};

    /// All kinds of kernels that the rewrites must keep valid. Immediates, if any, are named `p`.
    const KERNELS: &[(&str, &str)] = &[
        ("no arguments", "@compute @workgroup_size(1) fn main() { o[0] = 1; }"),
        (
            "every builtin",
            "@compute @workgroup_size(24) fn main(@builtin(global_invocation_id) g: vec3<u32>,
                @builtin(local_invocation_id) l: vec3<u32>, @builtin(local_invocation_index) i: u32,
                @builtin(workgroup_id) w: vec3<u32>, @builtin(num_workgroups) n: vec3<u32>,
                @builtin(num_subgroups) ns: u32, @builtin(subgroup_id) si: u32,
                @builtin(subgroup_size) ss: u32, @builtin(subgroup_invocation_id) sl: u32) {
                o[g.x] = l.x + i + w.y + n.z + ns + si + ss + subgroupAdd(sl);
            }",
        ),
        (
            "builtins in structs and beside them",
            "struct In { @builtin(workgroup_id) w: vec3<u32>, @builtin(local_invocation_index) i: u32 }
            struct More { @builtin(global_invocation_id) g: vec3<u32> }
            @compute @workgroup_size(8) fn main(a: In, @builtin(num_workgroups) n: vec3<u32>, b: More) {
                o[b.g.x] = a.w.x * n.x + a.i;
            }",
        ),
        (
            "barriers and workgroup memory",
            "var<workgroup> tile: array<u32, 64>; var<workgroup> last: u32; var<private> mine: u32 = 3;
            fn reduce(i: u32) { workgroupBarrier(); tile[i] += tile[i ^ 1] + mine; storageBarrier(); }
            @compute @workgroup_size(64) fn main(@builtin(local_invocation_index) i: u32, @builtin(workgroup_id) w: vec3<u32>) {
                tile[i] = i; workgroupBarrier();
                if w.x == 3 { workgroupBarrier(); }
                for (var k = 0u; k < 4; k++) { reduce(i); }
                if i == 0 { last = tile[0]; }
                let all = workgroupUniformLoad(&last);
                if all > 3 { return; }
                o[w.x] = all;
            }",
        ),
        (
            "immediates in a struct",
            "struct P { n: u32, at: vec3<f32>, m: mat4x4<f32>, inner: array<vec4<u32>, 2> } var<immediate> p: P;
            fn scale() -> f32 { return p.m[1].x * p.at.z; }
            @compute @workgroup_size(1) fn main(@builtin(global_invocation_id) g: vec3<u32>) {
                if g.x < p.n { o[g.x] = u32(scale()) + p.inner[g.y % 2].z; }
            }",
        ),
        ("a scalar immediate", "var<immediate> p: u32; @compute @workgroup_size(1) fn main() { o[p] = p; }"),
        (
            "an immediate array",
            "struct P { n: u32, k: array<f32, 4> } var<immediate> p: P;
            @compute @workgroup_size(1) fn main(@builtin(workgroup_id) w: vec3<u32>) { let q = &p.k; o[0] = u32((*q)[w.x]); }",
        ),
        (
            "overrides, f16, atomics and names like ours",
            "override wg: u32 = 32; var<workgroup> w: array<atomic<u32>, wg * 2>;
            struct SortieGrid { main_body: array<f16> }
            @group(2) @binding(7) var<storage, read_write> sortie_grid: SortieGrid;
            fn main_body(x: u32) -> f16 { return f16(x); }
            @compute @workgroup_size(wg, 2) fn main(@builtin(local_invocation_index) i: u32) {
                atomicAdd(&w[i], 1); sortie_grid.main_body[i] = main_body(atomicLoad(&w[0])) * 2.0h;
            }",
        ),
    ];

    const NATIVE: Variant = Variant { immediates: ImmediatesAs::Native, wrapped: false };
    const WRAPPED: Variant = Variant { immediates: ImmediatesAs::Native, wrapped: true };

    fn variants() -> impl Iterator<Item = Variant> {
        let places = [ImmediatesAs::Native, ImmediatesAs::Uniform, ImmediatesAs::Storage];
        places.into_iter().flat_map(|immediates| [false, true].map(|wrapped| Variant { immediates, wrapped }))
    }

    fn rewrite(parsed: &Parsed, variant: Variant) -> Module {
        super::rewrite(&parsed.module, &parsed.interface, variant)
    }

    fn kernel(what: &str) -> Parsed {
        parsed(KERNELS.iter().find(|(name, _)| *name == what).expect("a kernel of that name").1)
    }

    fn parsed(kernel: &str) -> Parsed {
        let output = "@group(0) @binding(3) var<storage, read_write> o: array<u32>;";
        let enable = if kernel.contains("f16") { "enable f16; " } else { "" };
        parse(&format!("{enable}{output} {kernel}"), None, &[], Capabilities::all())
            .unwrap_or_else(|error| panic!("{error}"))
    }

    fn valid(module: &Module) -> ModuleInfo {
        validate("", module, Capabilities::all()).unwrap_or_else(|error| panic!("{error}"))
    }

    fn wgsl(module: &Module) -> String {
        back::wgsl::write_string(module, &valid(module), back::wgsl::WriterFlags::empty()).expect("WGSL")
    }

    #[test]
    fn every_variant_of_every_kernel_is_valid_and_can_be_written() {
        for (what, kernel) in KERNELS {
            let parsed = parsed(kernel);
            for variant in variants() {
                if variant.immediates == ImmediatesAs::Uniform && !immediates_fit_uniform(&parsed, Capabilities::all())
                {
                    assert_eq!(*what, "an immediate array");
                    continue;
                }
                let module = rewrite(&parsed, variant);
                let options = back::spv::Options { lang_version: (1, 3), ..Default::default() };
                back::spv::write_vec(&module, &valid(&module), &options, None).expect("SPIR-V");
                let text = wgsl(&module);
                let again = parse(&text, Some("main"), &[], Capabilities::all());
                let again = again.unwrap_or_else(|error| panic!("{what} {variant:?}: {error}\n{text}"));
                assert_eq!(again.interface.workgroup, parsed.interface.workgroup, "{what} {variant:?}");
            }
        }
    }

    #[test]
    fn native_and_unwrapped_is_the_module_itself() {
        for (what, kernel) in KERNELS {
            let parsed = parsed(kernel);
            let rewritten = rewrite(&parsed, NATIVE);
            assert_eq!(wgsl(&rewritten), wgsl(&parsed.module), "{what}");
        }
    }

    #[test]
    fn what_is_added_lives_in_the_group_above_the_kernels_own() {
        let parsed = kernel("immediates in a struct");
        let rewritten = rewrite(&parsed, Variant { immediates: ImmediatesAs::Storage, wrapped: true });
        let text = wgsl(&rewritten);
        assert!(text.contains("@group(1) @binding(0) \nvar<storage> p: P;"), "{text}");
        assert!(text.contains("@group(1) @binding(1) \nvar<uniform> sortie_grid: SortieGrid;"), "{text}");
        assert!(!text.contains("immediate"), "{text}");
        let uniform = rewrite(&parsed, Variant { immediates: ImmediatesAs::Uniform, wrapped: false });
        assert!(wgsl(&uniform).contains("@group(1) @binding(0) \nvar<uniform> p: P;"));
    }

    #[test]
    fn the_grid_block_is_laid_out_as_it_is_encoded() {
        let module = rewrite(&kernel("no arguments"), WRAPPED);
        let grid = module.types.iter().find(|(_, ty)| ty.name.as_deref() == Some("SortieGrid")).expect("its type").1;
        let TypeInner::Struct { members, span } = &grid.inner else { panic!("{grid:?}") };
        let offsets: Vec<_> = members.iter().map(|member| (member.name.as_deref(), member.offset)).collect();
        assert_eq!(offsets, [(Some("groups"), 0), (Some("base"), 12), (Some("total"), 16)]);
        assert_eq!(u64::from(*span), GRID_BLOCK);
    }

    #[test]
    fn the_wrapper_computes_what_the_tests_of_the_fold_compute() {
        let text = wgsl(&rewrite(&kernel("builtins in structs and beside them"), WRAPPED));
        let (_, wrapper) = text.split_once("@compute ").expect("an entry point");
        let expected = "@workgroup_size(8, 1, 1)
fn main(@builtin(workgroup_id) param: vec3<u32>, @builtin(num_workgroups) param_1: vec3<u32>, \
@builtin(local_invocation_index) param_2: u32, @builtin(local_invocation_id) param_3: vec3<u32>) {
    let _e4 = sortie_grid.groups;
    let _e6 = sortie_grid.base;
    let _e8 = sortie_grid.total;
    let _e18 = (_e6 + (param.x + (param_1.x * (param.y + (param_1.y * param.z)))));
    if (_e18 >= _e8) {
        return;
    }
    let _e23 = (_e18 / _e4.x);
    let _e26 = vec3<u32>((_e18 % _e4.x), (_e23 % _e4.y), (_e23 / _e4.y));
    main_body(In(_e26, param_2), _e4, More(((_e26 * vec3<u32>(8u, 1u, 1u)) + param_3)));
    return;
}";
        let lines = |text: &str| text.trim().lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>();
        assert_eq!(lines(wrapper), lines(expected));
    }

    #[test]
    fn a_kernel_without_immediates_fits_any_variant() {
        assert!(immediates_fit_uniform(&kernel("no arguments"), Capabilities::all()));
        assert!(immediates_fit_uniform(&kernel("immediates in a struct"), Capabilities::all()));
        assert!(!immediates_fit_uniform(&kernel("an immediate array"), Capabilities::all()));
    }
}
