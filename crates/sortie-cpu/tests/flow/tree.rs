//! Kernels as trees: integers only, so that every bit is known.

/// An expression without effects.
#[derive(Clone, Debug)]
pub(crate) enum Expr {
    Const(u32),
    /// A variable of the function at hand.
    Var(usize),
    /// One of the ids of the invocation; only in the entry point.
    Id(usize),
    /// A word that is the same for all.
    Param(usize),
    /// A word that is not.
    Input(Box<Expr>),
    Argument(usize),
    Global(usize),
    /// An element of the private array, in bounds or not.
    GlobalArray(Box<Expr>),
    /// An element of the function's own array, in bounds or not.
    Array(Box<Expr>, Box<Expr>),
    /// What a pointer points to.
    Pointee,
    /// An element of the row that a pointer points to.
    Row(Box<Expr>),
    /// A word of the invocation's own in a buffer.
    Own(Box<Expr>),
    Binary(Operator, Box<Expr>, Box<Expr>),
    Select(Box<Cond>, Box<Expr>, Box<Expr>),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Operator {
    Add,
    Sub,
    Mul,
    Xor,
    And,
    Or,
    Div,
    Rem,
    Shl,
    Shr,
    Min,
}

#[derive(Clone, Debug)]
pub(crate) enum Cond {
    Equal(Expr, Expr),
    Less(Expr, Expr),
    Not(Box<Cond>),
    Both(Box<Cond>, Box<Cond>),
    Either(Box<Cond>, Box<Cond>),
}

pub(crate) type Block = Vec<Statement>;

#[derive(Clone, Debug)]
pub(crate) enum Statement {
    /// `var`, with a first value or none.
    Declare(usize, Option<Expr>),
    Let(usize, Expr),
    Set(Target, Expr),
    /// `atomicAdd` on a word of the invocation's own; the old value goes to a variable.
    Atomic(usize, Expr, Expr),
    If(Cond, Block, Block),
    /// `for (var i = 0u; i < limit % 7u; i++)`.
    For(usize, Expr, Block),
    /// `while`, at most this many times; the variable counts.
    While(usize, u32, Cond, Block),
    /// `loop` with a `continuing`, at most this many times; the variable counts.
    Loop(usize, u32, Block, Block, Option<Cond>),
    /// Cases: selectors, whether it is the default too, body.
    Switch(Expr, Vec<(Vec<u32>, bool, Block)>),
    Call(Call),
    Break,
    Continue,
    Return(Option<Expr>),
}

#[derive(Clone, Debug)]
pub(crate) enum Target {
    Var(usize),
    Global(usize),
    GlobalArray(Expr),
    Array(Expr, Expr),
    Pointee,
    Row(Expr),
    Own(Expr),
    /// Far out of bounds of a buffer.
    Nowhere(Expr),
}

#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) function: usize,
    /// The variable that takes the result.
    pub(crate) to: usize,
    pub(crate) arguments: [Expr; 2],
    pub(crate) pointee: Option<Pointee>,
    pub(crate) row: Option<Row>,
}

/// Where the pointer that is passed points.
#[derive(Clone, Debug)]
pub(crate) enum Pointee {
    Var(usize),
    Element(Expr, Expr),
    /// Where the caller's own does.
    Same,
}

#[derive(Clone, Debug)]
pub(crate) enum Row {
    /// A row of the caller's array, in bounds or not.
    Of(Expr),
    Same,
}

#[derive(Clone, Debug)]
pub(crate) struct Function {
    pub(crate) body: Block,
    pub(crate) variables: usize,
    pub(crate) pointee: bool,
    pub(crate) row: bool,
}

/// What stands at the top of the entry point, where all invocations of a workgroup are together.
#[derive(Clone, Debug)]
pub(crate) enum Top {
    Code(Block),
    /// A variable goes through workgroup memory to another invocation.
    Exchange(usize, u32),
    /// All invocations take the first invocation's value.
    Share(usize),
    Repeat(usize, Vec<Top>),
}

#[derive(Clone, Debug)]
pub(crate) struct Kernel {
    pub(crate) size: [u32; 3],
    pub(crate) groups: [u32; 3],
    pub(crate) functions: Vec<Function>,
    pub(crate) main: Vec<Top>,
    pub(crate) variables: usize,
    pub(crate) params: [u32; 4],
    /// Whether it has workgroup memory.
    pub(crate) tile: bool,
}

/// Words of the input, and of each invocation in the output.
pub(crate) const INPUT: usize = 64;
pub(crate) const OWN: usize = 4;
pub(crate) const GLOBALS: usize = 2;
pub(crate) const GLOBAL_ARRAY: usize = 5;
pub(crate) const ROWS: usize = 3;
pub(crate) const ROW: usize = 4;
/// Names of ids, in the order of their numbers.
pub(crate) const IDS: [&str; 8] = ["gid.x", "lid.x", "wid.x", "li", "gid.y", "lid.y", "wid.y", "gid.z"];

impl Kernel {
    pub(crate) fn invocations(&self) -> u32 {
        self.size.iter().chain(&self.groups).product()
    }
}
