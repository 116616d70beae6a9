//! Kernel sources that grow out of all proportion: in naga, in the CPU lowering or in a driver's compiler.
//!
//! Each is made by a function of one number, so that the benchmark can also look at how its cost grows.

use std::fmt::Write as _;

/// A family of sources.
#[derive(Clone, Copy)]
pub(crate) struct Family {
    pub(crate) name: &'static str,
    /// Sizes that compile on every device.
    pub(crate) compiles: &'static [usize],
    /// Sizes that a driver is not given. The built-in CPU may run them: it shares functions instead of inlining them.
    pub(crate) refused: &'static [usize],
    pub(crate) make: fn(usize) -> String,
}

const OUT: &str = "@group(0) @binding(0) var<storage, read_write> o: array<u32>;\n";
const MAIN: &str = "@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {\n";

/// Where a kernel's statements start: what runs the kernel can put a `return` there.
pub(crate) const START: &str = "/* start */";

/// A kernel with these declarations and statements, where `a` is a `u32`, `f` an `f32` and `i` an index.
fn kernel(declarations: &str, statements: &str) -> String {
    format!(
        "{OUT}{declarations}\n{MAIN}{START} let i = id.x; var a = i; var f = f32(i); {statements}\no[i] = a + u32(f);\n}}\n"
    )
}

/// Joins what is made for each number below `count`.
fn each(count: usize, make: impl Fn(usize) -> String) -> String {
    (0..count).fold(String::new(), |mut text, number| {
        text += &make(number);
        text.push('\n');
        text
    })
}

fn doubled(first: &str, count: usize, make: impl Fn(usize, usize) -> String) -> String {
    (1..=count).fold(format!("{first}\n"), |mut text, number| {
        let _ = writeln!(text, "{}", make(number, number - 1));
        text
    })
}

/// `[0]` as often as an array of arrays has levels.
fn zeros(count: usize) -> String {
    "[0]".repeat(count)
}

fn doubling_constants(count: usize) -> String {
    let constants = doubled("const T0 = array(1, 1);", count, |n, p| format!("const T{n} = array(T{p}, T{p});"));
    kernel(&constants, &format!("a += u32(T{count}{});", zeros(count + 1)))
}

fn doubling_constants_in_reverse(count: usize) -> String {
    let constants = doubled("const T0 = array(1, 1);", count, |n, p| format!("const T{n} = array(T{p}, T{p});"));
    let constants: Vec<&str> = constants.lines().rev().collect();
    kernel(&constants.join("\n"), &format!("a += u32(T{count}{});", zeros(count + 1)))
}

fn doubling_typed_constants(count: usize) -> String {
    let constants = doubled("alias A0 = array<u32, 2>; const T0 = A0(1u, 1u);", count, |n, p| {
        format!("alias A{n} = array<A{p}, 2>; const T{n}: A{n} = A{n}(T{p}, T{p});")
    });
    kernel(&constants, &format!("let t = T{count}; a += t{};", zeros(count + 1)))
}

fn doubling_local_constants(count: usize) -> String {
    let constants = doubled("const T0 = array(1, 1);", count, |n, p| format!("const T{n} = array(T{p}, T{p});"));
    kernel("", &format!("{constants} a += u32(T{count}{});", zeros(count + 1)))
}

fn doubling_shadowed_constants(count: usize) -> String {
    let open = "{ const T = array(T, T);".repeat(count);
    let close = "}".repeat(count);
    kernel("", &format!("const T = array(1, 1); {open} a += u32(T{}); {close}", zeros(count + 1)))
}

fn doubling_struct_constants(count: usize) -> String {
    let constants = doubled("struct S0 { a: u32, b: u32 } const T0 = S0(1, 1);", count, |n, p| {
        format!("struct S{n} {{ a: S{p}, b: S{p} }} const T{n} = S{n}(T{p}, T{p});")
    });
    kernel(&constants, &format!("let t = T{count}; a += t{}.a;", ".a".repeat(count)))
}

fn doubling_matrix_constants(count: usize) -> String {
    let constants = doubled("const T0 = array(mat4x4(1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1.0));", count, |n, p| {
        format!("const T{n} = array(T{p}, T{p});")
    });
    kernel(&constants, &format!("f += T{count}{}[0][0].x;", zeros(count)))
}

fn doubling_lets(count: usize) -> String {
    let lets = doubled("let t0 = array(a, a);", count, |n, p| format!("let t{n} = array(t{p}, t{p});"));
    kernel("", &format!("{lets} a += t{count}{};", zeros(count + 1)))
}

fn doubling_overrides(count: usize) -> String {
    let overrides = doubled("override t0: u32 = 1;", count, |n, p| format!("override t{n}: u32 = t{p} + t{p};"));
    kernel(&overrides, &format!("a += t{count};"))
}

fn table_used_often(count: usize) -> String {
    let table = format!("const table = array({});", "1,".repeat(4096));
    kernel(&table, &each(count, |n| format!("a += u32(table[{}]);", n % 4096)))
}

fn zero_of_a_huge_array(_: usize) -> String {
    kernel("", "a += array<array<u32, 16384>, 16384>()[i][i];")
}

fn constant_zero_of_a_huge_array(_: usize) -> String {
    kernel("const z = array<array<u32, 16384>, 16384>();", "a += z[i][i];")
}

fn negated_zero_of_a_huge_array(_: usize) -> String {
    kernel("const length = 1 << 28;", "let x = -array<u32, length + 1>();")
}

fn negated_zero_of_a_struct(count: usize) -> String {
    let structs = doubled("struct S0 { a: u32, b: u32 }", count, |n, p| format!("struct S{n} {{ a: S{p}, b: S{p} }}"));
    kernel(&structs, &format!("let x = -S{count}();"))
}

fn doubling_structs(count: usize) -> String {
    let structs = doubled("struct S0 { a: u32, b: u32 }", count, |n, p| format!("struct S{n} {{ a: S{p}, b: S{p} }}"));
    let buffer = format!("{structs} @group(0) @binding(1) var<storage, read_write> s: S{count};");
    kernel(&buffer, &format!("a += s{}.a;", ".b".repeat(count)))
}

fn doubling_struct_values(count: usize) -> String {
    let structs = doubled("struct S0 { a: u32, b: u32 }", count, |n, p| format!("struct S{n} {{ a: S{p}, b: S{p} }}"));
    let buffer = format!("{structs} @group(0) @binding(1) var<storage, read_write> s: S{count};");
    kernel(&buffer, &format!("s = S{count}();"))
}

fn doubling_aliases(count: usize) -> String {
    let aliases = doubled("alias A0 = u32;", count, |n, p| format!("alias A{n} = array<A{p}, 2>;"));
    let buffer = format!("{aliases} @group(0) @binding(1) var<storage, read_write> s: A{count};");
    kernel(&buffer, &format!("var t = s; t{} = a; s = t;", zeros(count)))
}

fn doubling_calls(count: usize) -> String {
    let functions = doubled("fn run0(x: u32) -> u32 { return x * 3u + 1u; }", count, |n, p| {
        format!("fn run{n}(x: u32) -> u32 {{ return run{p}(x) + run{p}(x + 1u); }}")
    });
    kernel(&functions, &format!("a = run{count}(a);"))
}

fn doubling_statement_calls(count: usize) -> String {
    let functions =
        doubled("fn run0() { o[0] += 1u; }", count, |n, p| format!("fn run{n}() {{ run{p}(); run{p}(); }}"));
    kernel(&functions, &format!("run{count}();"))
}

fn doubling_calls_with_pointers(count: usize) -> String {
    let functions = doubled("fn run0(p: ptr<function, u32>) { *p = *p * 3u + 1u; }", count, |n, p| {
        format!(
            "fn run{n}(p: ptr<function, u32>) {{ var a = *p; var b = *p + 1u; run{p}(&a); run{p}(&b); *p = a + b; }}"
        )
    });
    kernel(&functions, &format!("run{count}(&a);"))
}

fn temporary_array(count: usize) -> String {
    kernel("", &format!("a += array<u32, {count}>()[i];"))
}

fn loaded_array(count: usize) -> String {
    let buffer = format!("@group(0) @binding(1) var<storage, read_write> s: array<u32, {count}>;");
    kernel(&buffer, "let t = s; a += t[i];")
}

fn copied_array(count: usize) -> String {
    let buffer = format!(
        "@group(0) @binding(1) var<storage, read_write> s: array<u32, {count}>; @group(0) @binding(2) var<storage, read_write> t: array<u32, {count}>;"
    );
    kernel(&buffer, "t = s;")
}

fn copied_arrays(count: usize) -> String {
    let buffer = "@group(0) @binding(1) var<storage, read_write> s: array<u32, 1000>; @group(0) @binding(2) var<storage, read_write> t: array<u32, 1000>;";
    kernel(buffer, &"t = s;".repeat(count))
}

fn returned_array(count: usize) -> String {
    let function =
        format!("fn call(x: u32) -> array<u32, {count}> {{ var r: array<u32, {count}>; r[x] = x; return r; }}");
    kernel(&function, "a += call(a)[i];")
}

fn passed_array(count: usize) -> String {
    let functions = format!(
        "alias A = array<u32, {count}>; fn g(x: A, i: u32) -> u32 {{ return x[i]; }} fn call(x: A, i: u32) -> u32 {{ return g(x, i) + x[i]; }}"
    );
    kernel(&functions, "var v: A; v[i] = a; a += call(v, i);")
}

fn temporary_arrays(count: usize) -> String {
    kernel("", &each(count, |n| format!("a += array<u32, 256>()[(i + {n}u) & 255u];")))
}

fn workgroup_array(count: usize) -> String {
    let variable = format!("var<workgroup> w: array<u32, {count}>;");
    kernel(&variable, "w[i] = a; workgroupBarrier(); a += w[63u - i];")
}

fn statements(count: usize) -> String {
    kernel("", &"a += o[a];\n".repeat(count))
}

fn arithmetic(count: usize) -> String {
    kernel("", &"a = a * 3 + 1;\n".repeat(count))
}

fn vector_loads(count: usize) -> String {
    let buffer = "@group(0) @binding(1) var<storage, read_write> v: array<vec4<u32>>;";
    kernel(buffer, &each(count, |n| format!("let x{n} = v[i + {n}u]; a += x{n}.x ^ x{n}.y ^ x{n}.z ^ x{n}.w;")))
}

fn shifting_variables(count: usize) -> String {
    let variables = each(count, |n| format!("var x{n} = 0u;"));
    let shifts = each(count.saturating_sub(1), |n| format!("x{} = x{};", count - 1 - n, count - 2 - n));
    let last = count.saturating_sub(1);
    kernel("", &format!("{variables} for (var j = 0u; j < 9u; j++) {{ {shifts} x0 = o[i]; }} a += x{last};"))
}

fn stores(count: usize) -> String {
    kernel("", &each(count, |n| format!("o[i + {n}u] = a;")))
}

fn lets(count: usize) -> String {
    let lets = doubled("let x0 = a;", count, |n, p| format!("let x{n} = x{p} + x{p};"));
    kernel("", &format!("{lets} a = x{count};"))
}

fn live_lets(count: usize) -> String {
    let lets = each(count, |n| format!("let x{n} = o[i + {n}u];"));
    let uses = each(count, |n| format!("a = a * 3u ^ x{n};"));
    kernel("", &(lets + &uses))
}

fn variables(count: usize) -> String {
    kernel("", &each(count, |n| format!("var x{n} = a; x{n} += {n}u; a += x{n};")))
}

fn live_variables(count: usize) -> String {
    let variables = each(count, |n| format!("var x{n} = a + {n}u;"));
    let uses = each(count, |n| format!("if a > {n}u {{ x{n} += a; a ^= x{n}; }}"));
    kernel("", &(variables + &uses))
}

fn ifs(count: usize) -> String {
    kernel("", &each(count, |n| format!("if a == {n}u {{ a += 7u; }}")))
}

fn ifs_with_stores(count: usize) -> String {
    kernel("", &each(count, |n| format!("if a == {n}u {{ o[i] = 7u; }}")))
}

fn ifs_with_many_variables(count: usize) -> String {
    let variables = each(100, |n| format!("var x{n} = a + {n}u;"));
    let ifs = each(count, |n| format!("if a == {n}u {{ x{} = o[a]; x{} += a; }} a += x{};", n % 100, n % 7, n % 50));
    kernel("", &(variables + &ifs))
}

fn early_returns(count: usize) -> String {
    kernel("", &each(count, |n| format!("if a == {n}u {{ o[i] = {n}u; return; }}")))
}

fn else_ifs(count: usize) -> String {
    let chain = "if a == 0u { a = 7u; }".to_owned() + &each(400, |n| format!("else if a == {n}u {{ a = o[{n}u]; }}"));
    kernel("", &chain.repeat(count))
}

fn nested_ifs(count: usize) -> String {
    let nest = format!("{} a += o[a]; {}", "if o[a] > 3u { a += 1u;".repeat(100), "}".repeat(100));
    kernel("", &nest.repeat(count))
}

fn cases(count: usize) -> String {
    let cases = each(count, |n| format!("case {n}u: {{ a += {n}u * 7u; }}"));
    kernel("", &format!("switch a {{ {cases} default: {{ a = 1u; }} }}"))
}

fn cases_with_stores(count: usize) -> String {
    let cases = each(count, |n| format!("case {n}u: {{ o[i] = a * {n}u; }}"));
    kernel("", &format!("switch a {{ {cases} default: {{ a = 1u; }} }}"))
}

fn selectors(count: usize) -> String {
    let selectors = each(count, |n| format!("{}u,", n * 3));
    kernel("", &format!("switch a {{ case {selectors} : {{ a += 7u; }} default: {{ a = 1u; }} }}"))
}

fn switches(count: usize) -> String {
    let one = "switch a { case 1u: { a += 3u; } case 2u, 3u: { o[i] = a; } default: { a ^= 1u; } }";
    kernel("", &one.repeat(count))
}

fn loops(count: usize) -> String {
    kernel("", &each(count, |n| format!("for (var j = 0u; j < a; j++) {{ a ^= j * {n}u; }}")))
}

fn counted_loops(count: usize) -> String {
    kernel("", &each(count, |n| format!("for (var j = 0u; j < 16u; j++) {{ a ^= o[j + {n}u]; }}")))
}

fn nested_loops(count: usize) -> String {
    let open = (0..count).map(|n| format!("for (var j{n} = 0u; j{n} < 4u; j{n}++) {{")).collect::<String>();
    kernel("", &format!("{open} {} {}", "a = a * 3u + o[a & 7u];".repeat(20), "}".repeat(count)))
}

fn nested_loops_with_bodies(count: usize) -> String {
    let open = (0..60).map(|n| format!("for (var j{n} = 0u; j{n} < a; j{n}++) {{ a ^= j{n};")).collect::<String>();
    kernel("", &format!("{open} {} {}", "a = a * 3u + o[a & 7u];".repeat(count), "}".repeat(60)))
}

fn selects(count: usize) -> String {
    kernel("", &each(count, |n| format!("a = select(a, a * 3u, a > {n}u);")))
}

fn functions(count: usize) -> String {
    let functions = each(count, |n| format!("fn run{n}(x: u32) -> u32 {{ return x * {n}u + o[x & 7u]; }}"));
    let calls = each(count, |n| format!("a = run{n}(a);"));
    kernel(&functions, &calls)
}

fn calls(count: usize) -> String {
    kernel("fn call(x: u32) -> u32 { return x * 3u + o[x & 7u]; }", &"a = call(a);\n".repeat(count))
}

fn empty_calls(count: usize) -> String {
    let variables = each(1500, |n| format!("var<private> p{n}: u32;"));
    let uses = each(1500, |n| format!("p{n} += 1u;"));
    kernel(&format!("{variables} fn call() {{ {uses} }} fn g() {{}}"), &format!("call(); {}", "g();\n".repeat(count)))
}

fn entry_points(count: usize) -> String {
    kernel("", "") + &each(count, |n| format!("@compute @workgroup_size(1) fn main{n}() {{ o[0] = {n}u; }}"))
}

fn parameters(count: usize) -> String {
    let parameters = each(count, |n| format!("x{n}: u32,"));
    let sum = each(count, |n| format!("s += x{n};"));
    let arguments = "a,".repeat(count);
    kernel(
        &format!("fn call({parameters}) -> u32 {{ var s = 0u; {sum} return s; }}"),
        &format!("a = call({arguments});"),
    )
}

fn members(count: usize) -> String {
    let members = each(count, |n| format!("m{n}: u32,"));
    let sum = each(count, |n| format!("a += s.m{n};"));
    let buffer = format!("struct S {{ {members} }} @group(0) @binding(1) var<storage, read_write> s: S;");
    kernel(&buffer, &format!("var t = s; s = t; {sum}"))
}

fn private_variables(count: usize) -> String {
    let variables = each(count, |n| format!("var<private> p{n}: u32 = {n}u;"));
    kernel(&variables, &each(count, |n| format!("p{n} += a; a ^= p{n};")))
}

fn matrix_products(count: usize) -> String {
    kernel("", &format!("var m = mat4x4<f32>(); m[0].x = f; {} f += m[1].y;", "m = m * m;\n".repeat(count)))
}

fn determinants(count: usize) -> String {
    kernel(
        "",
        &format!("var m = mat4x4<f32>(); m[0].x = f; {} f += m[1].y;", "m[1].y += determinant(m);\n".repeat(count)),
    )
}

fn transcendentals(count: usize) -> String {
    kernel("", &format!("var v = vec4(f); {} f = v.x;", "v = pow(v, sin(v) + tan(v));\n".repeat(count)))
}

fn hyperbolic(count: usize) -> String {
    kernel("", &format!("var v = vec4(f); {} f = v.x;", "v = atan2(asinh(v), acosh(v) + atanh(v));\n".repeat(count)))
}

fn divisions(count: usize) -> String {
    kernel("", &format!("var v = vec4<i32>(id.xyzz); {} a += u32(v.x);", "v = v / v.yzwx % v.zwxy;\n".repeat(count)))
}

fn packing(count: usize) -> String {
    kernel("", &"a = pack4x8snorm(unpack4x8unorm(a)) ^ pack2x16float(unpack2x16float(a));\n".repeat(count))
}

fn chosen_components(count: usize) -> String {
    kernel("", &format!("var v = vec4<u32>(id.xyzz); {} a += v.x;", "v[a & 3u] = a; a += v[v.x & 3u];\n".repeat(count)))
}

fn local_arrays(count: usize) -> String {
    kernel("", &format!("var v: array<u32, 64>; {} a += v[0];", "v[a & 63u] = a; a += v[v[1] & 63u];\n".repeat(count)))
}

fn atomics(count: usize) -> String {
    kernel("@group(0) @binding(1) var<storage, read_write> n: atomic<u32>;", &"a += atomicAdd(&n, a);\n".repeat(count))
}

fn barriers(count: usize) -> String {
    kernel(
        "var<workgroup> w: array<u32, 64>;",
        &"w[i & 63u] = a; workgroupBarrier(); a += w[a & 63u]; workgroupBarrier();\n".repeat(count),
    )
}

fn assertions(count: usize) -> String {
    each(count, |_| format!("const_assert {} > 0;", vec!["1"; 500].join("+"))) + &kernel("", "")
}

fn long_names(count: usize) -> String {
    let name = "n".repeat(10_000);
    kernel("", &each(count, |n| format!("let {name}{n} = a;")))
}

fn swizzles(count: usize) -> String {
    kernel("", &format!("var v = vec4(f); {} f = v.x;", "v = v.wzyx.yxwz.xyzw.wwxy + v;\n".repeat(count)))
}

fn short_circuits(count: usize) -> String {
    kernel("", &each(count, |n| format!("if a > {n}u && o[a] > 3u || o[a + 1u] == {n}u {{ a += 1u; }}")))
}

macro_rules! families {
    ($($name:ident $compiles:expr, $refused:expr;)+) => {
        /// All of them.
        pub(crate) const FAMILIES: &[Family] = &[
            $(Family { name: stringify!($name), compiles: &$compiles, refused: &$refused, make: $name }),+
        ];
    };
}

families! {
    doubling_constants [4], [24];
    doubling_constants_in_reverse [4], [24];
    doubling_typed_constants [4], [24];
    doubling_local_constants [4], [24];
    doubling_shadowed_constants [4], [24];
    doubling_struct_constants [4], [24];
    doubling_matrix_constants [4], [20];
    doubling_lets [4], [24];
    doubling_overrides [30], [];
    table_used_often [10], [10_000];
    zero_of_a_huge_array [], [0];
    constant_zero_of_a_huge_array [], [0];
    negated_zero_of_a_huge_array [], [0];
    negated_zero_of_a_struct [], [24];
    doubling_structs [4, 10], [27];
    doubling_struct_values [4], [27];
    doubling_aliases [4], [27];
    doubling_calls [4], [20, 50];
    doubling_statement_calls [4], [20, 50];
    doubling_calls_with_pointers [4], [20, 50];
    temporary_array [256], [65_536];
    loaded_array [256], [65_536];
    copied_array [256], [65_536];
    copied_arrays [], [1_000];
    returned_array [256], [65_536];
    passed_array [256], [65_536];
    temporary_arrays [4], [1_000];
    workgroup_array [1024], [];
    statements [100], [60_000];
    arithmetic [500], [60_000];
    vector_loads [20], [10_000];
    shifting_variables [100], [10_000];
    stores [100], [30_000];
    lets [500], [30_000];
    live_lets [100], [10_000];
    variables [200], [20_000];
    live_variables [100], [10_000];
    ifs [200], [20_000];
    ifs_with_stores [100], [20_000];
    ifs_with_many_variables [50], [10_000];
    early_returns [50], [20_000];
    else_ifs [], [50];
    nested_ifs [1], [50];
    cases [100], [20_000];
    cases_with_stores [50], [20_000];
    selectors [500], [100_000];
    switches [50], [10_000];
    loops [10], [15_000];
    counted_loops [20], [15_000];
    nested_loops [4], [100];
    nested_loops_with_bodies [], [30_000];
    selects [500], [20_000];
    functions [50], [4_000];
    calls [100], [60_000];
    empty_calls [100], [100_000];
    entry_points [3_000], [];
    parameters [100], [20_000];
    members [50], [20_000];
    private_variables [100], [4_000];
    matrix_products [20], [30_000];
    determinants [20], [15_000];
    transcendentals [10], [15_000];
    hyperbolic [10], [15_000];
    divisions [50], [20_000];
    packing [20], [15_000];
    chosen_components [50], [20_000];
    local_arrays [50], [20_000];
    atomics [100], [30_000];
    barriers [10], [12_000];
    assertions [20], [1_000];
    long_names [50], [];
    swizzles [100], [20_000];
    short_circuits [50], [15_000];
}
