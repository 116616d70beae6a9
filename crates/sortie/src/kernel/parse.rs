//! WGSL text to a checked naga module with its interface.
//!
//! Invariant: a [`Parsed`] module is valid, has one entry point (a compute one, number 0) with the functions and
//! variables that it reaches, and no `override`: its workgroup size and array lengths are final. A storage buffer that it
//! only reads is declared `read`.

use std::panic::{AssertUnwindSafe, catch_unwind};

use naga::{
    Module, ShaderStage,
    front::wgsl,
    valid::{Capabilities, ModuleInfo, ValidationFlags, Validator},
};

use super::{
    frexp,
    interface::{self, Interface},
    overrides::{self, OverrideValues},
    reach,
    size::{self, KernelSize},
    source::{self, SourceError},
};

/// Why a source was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum KernelError {
    /// Exceeds a limit that keeps naga's stack from overflowing.
    #[error(transparent)]
    Refused(SourceError),
    /// Not valid WGSL: naga's own report, with the user's line.
    #[error("{0}")]
    Shader(String),
    /// Valid, but not supported by this crate.
    #[error("{construct}{} is not supported", line.map(|line| format!(" at line {line}")).unwrap_or_default())]
    Unsupported { construct: String, line: Option<u32> },
    /// A value for an `override` constant is missing, unknown or impossible.
    #[error("{0}")]
    Constant(String),
    /// The entry point is missing, unknown or one of several.
    #[error("{0}")]
    Entry(String),
}

/// A parsed and checked kernel.
#[derive(Debug)]
pub(crate) struct Parsed {
    pub(crate) module: Module,
    pub(crate) info: ModuleInfo,
    pub(crate) interface: Interface,
    pub(crate) size: KernelSize,
}

/// Parses and checks `source`, selects its entry point `entry` (`None`: the only one) and sets its `override` constants
/// to the values in `constants`, by name or by `@id`.
///
/// Needs the stack described in [`source::check`].
pub(crate) fn parse(
    source: &str,
    entry: Option<&str>,
    constants: &[(String, f64)],
    capabilities: Capabilities,
) -> Result<Parsed, KernelError> {
    checked(source, || parse_checked(source, entry, constants, capabilities))
}

/// The names of the compute entry points of `source`, without checking device support. Needs the same stack.
pub(crate) fn entries(source: &str) -> Result<Vec<String>, KernelError> {
    checked(source, || {
        let module = read(source)?;
        Ok(compute_entries(&module).map(|(_, name)| name.to_owned()).collect())
    })
}

/// Checks the source limits, then runs naga, catching its panics.
fn checked<T>(source: &str, run: impl FnOnce() -> Result<T, KernelError>) -> Result<T, KernelError> {
    source::check(source).map_err(KernelError::Refused)?;
    // WGSL can reach `unreachable!`s in naga. Known ones are avoided; the rest must not panic in the caller.
    catch_unwind(AssertUnwindSafe(run))
        .unwrap_or_else(|_| Err(KernelError::Shader("naga panicked on this source: please report it".into())))
}

fn parse_checked(
    source: &str,
    entry: Option<&str>,
    constants: &[(String, f64)],
    capabilities: Capabilities,
) -> Result<Parsed, KernelError> {
    let mut module = read(source)?;
    frexp::widen_exponents(source, &mut module);
    interface::check_immediates(source, &module)?;
    // All of it must be valid WGSL. Device support matters only for code that the entry point reaches.
    validate(source, &module, Capabilities::all())?;
    let index = choose(&module, entry)?;
    let values = OverrideValues::new(&module, constants)?;
    let declared = interface::declared(&module);

    reach::reduce(source, &mut module, index)?;
    interface::check_resources(source, &module)?;
    let mut module = overrides::resolve(source, module, &values, capabilities)?;
    let mut info = validate(source, &module, capabilities)?;
    let interface = interface::reflect(&module, &info, declared);
    if interface::set_access(&mut module, &interface) {
        info = validate(source, &module, capabilities)?;
    }
    let size = size::measure(&module, &info);
    Ok(Parsed { module, info, interface, size })
}

/// Parses with every extension enabled. Device support is checked once the module is reduced to its entry point.
fn read(source: &str) -> Result<Module, KernelError> {
    let error = |error: wgsl::ParseError| KernelError::Shader(error.emit_to_string(source).trim_end().to_owned());
    wgsl::Frontend::new().parse(source).map_err(error)
}

/// The same check as wgpu's `create_shader_module`; the capabilities determine the subgroup operations.
pub(crate) fn validate(source: &str, module: &Module, capabilities: Capabilities) -> Result<ModuleInfo, KernelError> {
    let validate =
        |capabilities| Validator::new(ValidationFlags::all(), capabilities).validate(module).map_err(Box::new);
    validate(capabilities).map_err(|error| match validate(Capabilities::all()) {
        // Valid on a device with more capabilities.
        Ok(_) => {
            let mut cause: &dyn std::error::Error = error.as_inner();
            while let Some(deeper) = cause.source() {
                cause = deeper;
            }
            let construct = named(&cause.to_string());
            let line = error.location(source).map(|at| at.line_number).or_else(|| line_of(source, &construct));
            KernelError::Unsupported { construct, line }
        }
        Err(_) => KernelError::Shader(error.emit_to_string(source).trim_end().to_owned()),
    })
}

/// The subject of a naga message: the first quoted text, or the required capability.
fn named(message: &str) -> String {
    let asked = message.split_once("Capabilities(").and_then(|(_, rest)| rest.split_once(')'));
    match (message.split('`').nth(1), asked) {
        (Some(name), _) => format!("`{name}`"),
        (None, Some((names, _))) => format!("the capability {names}"),
        (None, None) => message.to_owned(),
    }
}

/// The first line that uses a word. naga's types have no line.
fn line_of(source: &str, quoted: &str) -> Option<u32> {
    let word = quoted.trim_matches('`');
    let has = |line: &str| line.split(|c: char| !c.is_alphanumeric() && c != '_').any(|other| other == word);
    (1..).zip(source.lines()).find(|(_, line)| has(line)).map(|(number, _)| number)
}

/// Compute entry points with their index in the module.
fn compute_entries(module: &Module) -> impl Iterator<Item = (usize, &str)> {
    let entries = module.entry_points.iter().enumerate().filter(|(_, entry)| entry.stage == ShaderStage::Compute);
    entries.map(|(index, entry)| (index, entry.name.as_str()))
}

fn choose(module: &Module, entry: Option<&str>) -> Result<usize, KernelError> {
    let entries: Vec<_> = compute_entries(module).collect();
    let names = || list(entries.iter().map(|(_, name)| *name));
    match (entry, entries.as_slice()) {
        (_, []) => Err(KernelError::Entry("the module has no compute entry point".into())),
        (None, [(index, _)]) => Ok(*index),
        (None, _) => Err(KernelError::Entry(format!("the module has several entry points, name one: {}", names()))),
        (Some(wanted), _) => match entries.iter().find(|(_, name)| *name == wanted) {
            Some((index, _)) => Ok(*index),
            None => Err(KernelError::Entry(format!("no compute entry point `{wanted}`; the module has {}", names()))),
        },
    }
}

/// Names for a message: `` `a`, `b` ``.
pub(super) fn list<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::{
        super::rewrite::{ImmediatesAs, Variant, rewrite},
        *,
    };

    const TWO: &str = "@group(0) @binding(0) var<storage, read_write> x: array<u32>;
        fn helper() { x[0] = 1; } fn other() { x[0] = 2; }
        @vertex fn vs() -> @builtin(position) vec4<f32> { return vec4<f32>(); }
        @compute @workgroup_size(1) fn first() { helper(); }
        @compute @workgroup_size(2) fn second() { other(); }";

    fn entry(source: &str, entry: Option<&str>) -> Result<Parsed, KernelError> {
        parse(source, entry, &[], Capabilities::all())
    }

    fn error(source: &str, name: Option<&str>) -> String {
        entry(source, name).expect_err("refused").to_string()
    }

    #[test]
    fn only_the_chosen_entry_point_and_what_it_calls_remains() {
        let parsed = entry(TWO, Some("second")).expect("valid");
        assert_eq!(parsed.module.entry_points.len(), 1);
        assert_eq!((parsed.interface.entry.as_str(), parsed.interface.workgroup), ("second", [2, 1, 1]));
        let functions: Vec<_> = parsed.module.functions.iter().map(|(_, function)| function.name.as_deref()).collect();
        assert_eq!(functions, [Some("other")]);
    }

    #[test]
    fn a_missing_or_ambiguous_entry_point_is_an_error_that_lists_them() {
        assert_eq!(error(TWO, None), "the module has several entry points, name one: `first`, `second`");
        assert_eq!(error(TWO, Some("vs")), "no compute entry point `vs`; the module has `first`, `second`");
        assert_eq!(error("", None), "the module has no compute entry point");
        assert_eq!(error("fn main() {}", Some("main")), "the module has no compute entry point");
    }

    #[test]
    fn entries_are_the_compute_ones() {
        assert_eq!(entries(TWO).expect("valid"), ["first", "second"]);
        assert_eq!(entries("").expect("valid"), [""; 0]);
        let error = entries("\nfn main() { let x: u32 = 1.5; }").expect_err("no such number");
        assert!(error.to_string().contains("wgsl:2:"), "{error}");
    }

    #[test]
    fn the_only_compute_entry_point_needs_no_name() {
        let source = TWO.replace("@compute @workgroup_size(2)", "");
        assert_eq!(entry(&source, None).expect("valid").interface.entry, "first");
    }

    #[test]
    fn shader_errors_are_nagas_with_the_users_line() {
        let parse_error = error("\n\n@compute @workgroup_size(1) fn main() { let x: u32 = 1.5; }", None);
        assert!(parse_error.contains("wgsl:3:"), "{parse_error}");
        let type_error = error("\n@group(0) @binding(0) var<uniform> x: array<f32, 4>;", None);
        assert!(type_error.contains("wgsl:2:") && type_error.contains("16"), "{type_error}");
        assert!(!type_error.ends_with('\n'));
    }

    #[test]
    fn capabilities_decide_what_is_valid() {
        let source = "enable f16; @group(0) @binding(0) var<storage, read_write> x: array<f16>;
            @compute @workgroup_size(1) fn main() { x[0] = 1.0h; }";
        parse(source, None, &[], Capabilities::SHADER_FLOAT16).expect("with f16");
        parse(source, None, &[], Capabilities::empty()).expect_err("without f16");
    }

    #[test]
    fn a_source_over_the_limits_is_refused_before_naga() {
        let source = format!("const a = {}1;", "~".repeat(100_000));
        assert!(matches!(entry(&source, None), Err(KernelError::Refused(_))));
    }

    struct Random(u64);

    impl Random {
        fn below(&mut self, end: usize) -> usize {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            usize::try_from(self.0 % end as u64).unwrap_or(0)
        }

        fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
            from[self.below(from.len())]
        }
    }

    /// Words of almost valid kernels, so that naga gets past its parser now and then.
    const WORDS: &[&str] = &[
        "fn",
        "f",
        "main",
        "(",
        ")",
        "{",
        "}",
        "<",
        ">",
        "[",
        "]",
        ";",
        ",",
        ":",
        "=",
        "+",
        "-",
        "*",
        "/",
        "&",
        "|",
        "!",
        "~",
        "->",
        ".",
        "@",
        "@compute @workgroup_size(1)",
        "var",
        "var<workgroup>",
        "var<immediate>",
        "let",
        "const",
        "override",
        "struct",
        "S",
        "alias",
        "a",
        "b",
        "x",
        "u32",
        "f32",
        "i32",
        "bool",
        "vec3<u32>",
        "array<u32, 4>",
        "array<",
        "atomic",
        "if",
        "else",
        "for",
        "loop",
        "switch",
        "case",
        "default",
        "break",
        "continue",
        "continuing",
        "return",
        "1",
        "0x1p-3",
        "1.5",
        "0u",
        "4294967295u",
        "-2147483648",
        "@id(1)",
        "@group(0) @binding(0)",
        "workgroupBarrier",
        "select",
        "arrayLength",
        "&x",
        "enable f16;",
        "/*",
        "*/",
        "//",
        "\n",
        "é",
        "\u{2028}",
        "_",
    ];

    /// Words that often can replace one another.
    const ALIKE: &[&[&str]] = &[
        &["0", "1", "2", "3", "4", "4294967295", "-1", "1.5", "n", "id.x"],
        &["u32", "f32", "i32", "vec3<f32>", "vec4<u32>", "bool", "atomic<u32>", "S", "array<u32, n>"],
        &["+", "-", "*", "/", "%", "&", "<<", ">", "=="],
        &["workgroup", "private", "immediate", "storage", "uniform", "function"],
    ];

    const SEED: &str = "override n : u32 = 4 ; var<workgroup> w : array< u32 , n * 2 > ; @id( 3 ) override m : f32 = 1 ;
        var< immediate > i : vec4<u32> ; const k : u32 = 1 ; override late : u32 = 2 ; struct S { a : u32 , b : array< u32 > }
        @group( 0 ) @binding( 1 ) var< storage , read_write> s : S ; fn f( x : u32 ) -> u32 { return x * k ; }
        @compute @workgroup_size( n , late ) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
            var x = array<u32, 4>( 1 , 2 , 3 , i.x ) ; loop { if x[ id.x ] > 3 { break ; } x[ 1 ] ++ ; }
            switch id.z { case 1 , 2 : { x[ 0 ] <<= 3 ; } default : { } } let y = f( x[ 3 ] ) ;
            w[ id.x % n ] = x[ 0 ] / y ; workgroupBarrier( ) ; s.b[ id.x ] = u32 ( f32 ( w[ 0 ] ) * m ) ; s.a = arrayLength(&s.b ) ;
        }";

    fn source(random: &mut Random) -> String {
        match random.below(8) {
            0 => (0..random.below(60)).map(|_| random.pick(WORDS).to_owned() + " ").collect(),
            1 => {
                let bytes: Vec<u8> =
                    (0..random.below(80)).map(|_| u8::try_from(random.below(256)).unwrap_or(0)).collect();
                String::from_utf8_lossy(&bytes).into_owned()
            }
            _ => {
                let mut words: Vec<&str> = SEED.split_whitespace().collect();
                for _ in 0..1 + random.below(8) {
                    let (at, other) = (random.below(words.len()), random.below(words.len()));
                    let alike = ALIKE.iter().find(|alike| alike.contains(&words[at]));
                    match (random.below(16), alike) {
                        (0, _) => drop(words.remove(at)),
                        (1, _) => words.swap(at, other),
                        (2, _) => words.insert(at, random.pick(WORDS)),
                        (_, Some(alike)) => words[at] = random.pick(alike),
                        (_, None) => {}
                    }
                }
                words.join(" ")
            }
        }
    }

    #[test]
    fn no_soup_of_bytes_words_or_broken_kernels_makes_naga_panic() {
        let run = || {
            let mut random = Random(0x9e37_79b9_7f4a_7c15);
            let mut valid = 0;
            for case in 0..3_000 {
                let source = source(&mut random);
                let constants = [(random.pick(&["n", "3", "m", "a", ""]).to_owned(), 2.0)];
                let constants = if random.below(2) == 0 { &constants[..] } else { &[] };
                match parse_checked(&source, Some("main").filter(|_| case % 8 == 0), constants, Capabilities::all()) {
                    Ok(parsed) => {
                        valid += 1;
                        for wrapped in [false, true] {
                            let variant = Variant { immediates: ImmediatesAs::Storage, wrapped };
                            validate(
                                &source,
                                &rewrite(&parsed.module, &parsed.interface, variant),
                                Capabilities::all(),
                            )
                            .expect("still valid");
                        }
                    }
                    Err(error) => assert!(!error.to_string().is_empty()),
                }
            }
            valid
        };
        let thread = std::thread::Builder::new().stack_size(128 << 20).spawn(run).expect("a thread");
        assert!(thread.join().expect("no panic") > 50, "hardly any kernel was valid");
    }
}
