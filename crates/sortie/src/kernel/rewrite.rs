//! Variants of a kernel's entry point, built in naga's IR: immediates moved to a buffer, and a wrapper that runs a folded grid.
//!
//! What a variant adds lives in one bind group above the kernel's own: the immediates at binding 0, the grid's parameter
//! block (see `fold`) at binding 1.
//!
//! Invariant: a rewrite of a valid module is valid, with one exception: immediates as a uniform, where the layout rules are
//! stricter ([`immediates_fit_uniform`] knows). The entry point keeps its name and its workgroup size.

use naga::{
    AddressSpace, BinaryOperator, Binding, Block, BuiltIn, EntryPoint, Expression, Function, FunctionArgument,
    GlobalVariable, Handle, Literal, MemoryDecorations, Module, Range, ResourceBinding, Scalar, Span, Statement,
    StorageAccess, StructMember, Type, TypeInner, VectorSize, valid::Capabilities,
};

use super::{
    fold::GRID_BLOCK,
    parse::{Parsed, validate},
};

/// Where `var<immediate>` lives in the rewritten module.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum ImmediatesAs {
    Native,
    Uniform,
    Storage,
}

/// Which rewrite of a kernel.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Variant {
    pub(crate) immediates: ImmediatesAs,
    /// The entry point takes its grid from the parameter block instead of the dispatch.
    pub(crate) wrapped: bool,
}

/// A module for the device.
#[derive(Debug)]
pub(crate) struct Rewritten {
    pub(crate) module: Module,
    /// The group of what the variant added, if anything.
    pub(crate) hidden_group: u32,
}

/// Makes a variant of a kernel.
pub(crate) fn rewrite(parsed: &Parsed, variant: Variant) -> Rewritten {
    let mut module = parsed.module.clone();
    let hidden_group = parsed.interface.hidden_group();
    move_immediates(&mut module, variant.immediates, ResourceBinding { group: hidden_group, binding: 0 });
    if variant.wrapped {
        wrap(&mut module, ResourceBinding { group: hidden_group, binding: 1 });
    }
    Rewritten { module, hidden_group }
}

/// Whether the kernel's immediates have a layout that `var<uniform>` allows; arrays of scalars, for one, do not.
pub(crate) fn immediates_fit_uniform(parsed: &Parsed, capabilities: Capabilities) -> bool {
    let rewritten = rewrite(parsed, Variant { immediates: ImmediatesAs::Uniform, wrapped: false });
    validate("", &rewritten.module, capabilities).is_ok()
}

fn move_immediates(module: &mut Module, to: ImmediatesAs, at: ResourceBinding) {
    let space = match to {
        ImmediatesAs::Native => return,
        ImmediatesAs::Uniform => AddressSpace::Uniform,
        ImmediatesAs::Storage => AddressSpace::Storage { access: StorageAccess::LOAD },
    };
    for (_, var) in module.global_variables.iter_mut().filter(|(_, var)| var.space == AddressSpace::Immediate) {
        (var.space, var.binding) = (space, Some(at));
    }
}

/// Turns the entry point into an ordinary function, called by a new one that works out the ids it would have seen.
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

    let mut wrapper = Wrapper::new(&name, workgroup_size, types, grid);
    let arguments = arguments.into_iter().map(|(ty, binding)| wrapper.value(module, ty, binding.as_ref())).collect();
    wrapper.statement(Statement::Call { function: body, arguments, result: None });
    wrapper.statement(Statement::Return { value: None });
    module.entry_points.push(EntryPoint {
        name,
        stage: naga::ShaderStage::Compute,
        early_depth_test: None,
        workgroup_size,
        workgroup_size_overrides: None,
        function: wrapper.function,
        mesh_info: None,
        task_payload: None,
        incoming_ray_payload: None,
    });
}

#[derive(Clone, Copy)]
struct Types {
    uint: Handle<Type>,
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
        Self { uint, uint3, grid }
    }
}

/// The new entry point while it is being written.
struct Wrapper {
    function: Function,
    types: Types,
    workgroup_size: [u32; 3],
    /// The real built-ins that it takes so far.
    builtins: Vec<(BuiltIn, Handle<Expression>)>,
    /// The grid as the kernel sees it, and the linear number of this group in it.
    groups: Handle<Expression>,
    linear: Handle<Expression>,
    /// The ids that the kernel sees, once something has asked for them.
    workgroup_id: Option<Handle<Expression>>,
    invocation_id: Option<Handle<Expression>>,
}

impl Wrapper {
    /// Writes the early return: `linear = base + id.x + n.x * (id.y + n.y * id.z)`, the same for a whole workgroup.
    fn new(name: &str, workgroup_size: [u32; 3], types: Types, grid: Handle<GlobalVariable>) -> Self {
        let mut function = Function { name: Some(name.into()), ..Function::default() };
        let grid = function.expressions.append(Expression::GlobalVariable(grid), Span::UNDEFINED);
        let mut this = Self {
            function,
            types,
            workgroup_size,
            builtins: Vec::new(),
            groups: grid,
            linear: grid,
            workgroup_id: None,
            invocation_id: None,
        };
        let id = this.builtin(BuiltIn::WorkGroupId, types.uint3);
        let count = this.builtin(BuiltIn::NumWorkGroups, types.uint3);
        let [groups, base, total] = [0, 1, 2].map(|index| {
            let pointer = this.member(grid, index);
            this.emit(Expression::Load { pointer })
        });
        let [x, y, z] = [0, 1, 2].map(|index| this.member(id, index));
        let [columns, rows] = [0, 1].map(|index| this.member(count, index));
        let layer = this.binary(BinaryOperator::Multiply, rows, z);
        let row = this.binary(BinaryOperator::Add, y, layer);
        let row_start = this.binary(BinaryOperator::Multiply, columns, row);
        let offset = this.binary(BinaryOperator::Add, x, row_start);
        let linear = this.binary(BinaryOperator::Add, base, offset);
        let condition = this.binary(BinaryOperator::GreaterEqual, linear, total);
        let accept = Block::from_vec(vec![Statement::Return { value: None }]);
        this.statement(Statement::If { condition, accept, reject: Block::new() });
        (this.groups, this.linear) = (groups, linear);
        this
    }

    /// What the kernel's argument of type `ty` gets: a built-in, or a struct of them.
    fn value(&mut self, module: &Module, ty: Handle<Type>, binding: Option<&Binding>) -> Handle<Expression> {
        match (binding, &module.types[ty].inner) {
            (Some(Binding::BuiltIn(BuiltIn::WorkGroupId)), _) => self.workgroup_id(),
            (Some(Binding::BuiltIn(BuiltIn::GlobalInvocationId)), _) => self.invocation_id(),
            (Some(Binding::BuiltIn(BuiltIn::NumWorkGroups)), _) => self.groups,
            (Some(Binding::BuiltIn(builtin)), _) => self.builtin(*builtin, ty),
            (None, TypeInner::Struct { members, .. }) => {
                let components =
                    members.iter().map(|member| self.value(module, member.ty, member.binding.as_ref())).collect();
                self.emit(Expression::Compose { ty, components })
            }
            (binding, inner) => {
                unreachable!("naga validated an entry point argument {inner:?} with binding {binding:?}")
            }
        }
    }

    /// `(linear % x, linear / x % y, linear / x / y)`: divided one by one, because `x * y` may overflow.
    fn workgroup_id(&mut self) -> Handle<Expression> {
        if let Some(id) = self.workgroup_id {
            return id;
        }
        let [columns, rows] = [0, 1].map(|index| self.member(self.groups, index));
        let x = self.binary(BinaryOperator::Modulo, self.linear, columns);
        let row = self.binary(BinaryOperator::Divide, self.linear, columns);
        let y = self.binary(BinaryOperator::Modulo, row, rows);
        let z = self.binary(BinaryOperator::Divide, row, rows);
        let id = self.emit(Expression::Compose { ty: self.types.uint3, components: vec![x, y, z] });
        *self.workgroup_id.insert(id)
    }

    /// `workgroup_id * workgroup_size + local_invocation_id`
    fn invocation_id(&mut self) -> Handle<Expression> {
        if let Some(id) = self.invocation_id {
            return id;
        }
        let group = self.workgroup_id();
        let local = self.builtin(BuiltIn::LocalInvocationId, self.types.uint3);
        let size = self.workgroup_size.map(|size| self.append(Expression::Literal(Literal::U32(size))));
        let size = self.emit(Expression::Compose { ty: self.types.uint3, components: size.to_vec() });
        let first = self.binary(BinaryOperator::Multiply, group, size);
        let id = self.binary(BinaryOperator::Add, first, local);
        *self.invocation_id.insert(id)
    }

    /// A real built-in; an entry point may take each only once.
    fn builtin(&mut self, builtin: BuiltIn, ty: Handle<Type>) -> Handle<Expression> {
        if let Some((_, value)) = self.builtins.iter().find(|(taken, _)| *taken == builtin) {
            return *value;
        }
        let index = self.builtins.len() as u32;
        let binding = Some(Binding::BuiltIn(builtin));
        self.function.arguments.push(FunctionArgument { name: None, ty, binding });
        let value = self.append(Expression::FunctionArgument(index));
        self.builtins.push((builtin, value));
        value
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
        self.statement(Statement::Emit(Range::new_from_bounds(value, value)));
        value
    }

    fn append(&mut self, expression: Expression) -> Handle<Expression> {
        self.function.expressions.append(expression, Span::UNDEFINED)
    }

    fn statement(&mut self, statement: Statement) {
        self.function.body.push(statement, Span::UNDEFINED);
    }
}
