//! The modules of a crate, and the paths that their code names, read with `syn`. Comments and unit tests do not count.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use proc_macro2::{TokenStream, TokenTree};
use syn::{
    Attribute, Item, ItemMod, ItemUse, Macro, UseTree,
    visit::{self, Visit},
};

/// A path of names, the root of the crate being the empty one.
pub(crate) type Names = Vec<String>;

/// One module.
#[derive(Debug, Default)]
pub(crate) struct Module {
    /// Relative to `src`, for messages.
    pub(crate) file: String,
    /// Paths as they stand in its code.
    pub(crate) named: BTreeSet<Names>,
    /// Names that it re-exports, and the path that each was imported from.
    reexports: BTreeMap<String, Names>,
}

/// All modules of a crate by their paths.
#[derive(Debug, Default)]
pub(crate) struct Source {
    pub(crate) modules: BTreeMap<Names, Module>,
    /// Modules that are compiled for unit tests only.
    tests: BTreeSet<Names>,
}

/// What a path leads to.
#[derive(Debug, PartialEq)]
pub(crate) enum Target {
    /// A module of the same crate.
    Module(Names),
    /// Another crate.
    Crate(String),
}

impl Source {
    /// Reads every file below `src`.
    pub(crate) fn read(src: &Path) -> Self {
        let mut source = Self::default();
        source.read_folder(src, src, &[]);
        let tests = std::mem::take(&mut source.tests);
        source.modules.retain(|path, _| !tests.iter().any(|test| path.starts_with(test)));
        source
    }

    fn read_folder(&mut self, src: &Path, folder: &Path, module: &[String]) {
        for entry in fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
            let path = entry.expect("an entry").path();
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let child = || module.iter().cloned().chain([name.clone()]).collect::<Names>();
            if path.is_dir() {
                self.read_folder(src, &path, &child());
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let root = matches!(name.as_str(), "lib" | "main") && module.is_empty();
                self.read_file(src, &path, if root || name == "mod" { module.to_vec() } else { child() });
            }
        }
    }

    fn read_file(&mut self, src: &Path, path: &Path, module: Names) {
        let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let parsed = syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let file = path.strip_prefix(src).unwrap_or(path).display().to_string();
        let mut reader = Reader { source: self, module, file };
        reader.source.modules.entry(reader.module.clone()).or_default().file.clone_from(&reader.file);
        reader.visit_file(&parsed);
    }

    /// What a path that stands in a module leads to, through all re-exports.
    pub(crate) fn resolve(&self, module: &[String], path: &[String]) -> Option<Target> {
        let (first, rest) = path.split_first()?;
        let mut at = match first.as_str() {
            "crate" => Vec::new(),
            "self" => module.to_vec(),
            "super" => module.split_last()?.1.to_vec(),
            // `::name` is another crate, even where a child has that name.
            "" => return Some(Target::Crate(rest.first()?.clone())),
            // A child of this module, else another crate; std and core do not matter.
            name => {
                let child: Names = module.iter().cloned().chain([name.to_owned()]).collect();
                if !self.modules.contains_key(&child) {
                    return Some(Target::Crate(name.to_owned()));
                }
                child
            }
        };
        for (index, name) in rest.iter().enumerate() {
            if name == "super" {
                at.pop();
                continue;
            }
            let child: Names = at.iter().cloned().chain([name.clone()]).collect();
            if self.modules.contains_key(&child) {
                at = child;
                continue;
            }
            let Some(from) = self.modules.get(&at).and_then(|module| module.reexports.get(name)) else { break };
            let path: Names = from.iter().chain(&rest[index + 1..]).cloned().collect();
            return self.resolve(&at, &path);
        }
        Some(Target::Module(at))
    }
}

/// Collects what one file names.
struct Reader<'a> {
    source: &'a mut Source,
    /// Inline modules are modules too.
    module: Names,
    file: String,
}

impl Reader<'_> {
    fn module(&mut self) -> &mut Module {
        self.source.modules.entry(self.module.clone()).or_default()
    }

    fn names(&mut self, path: Names) {
        if path.len() > 1 {
            self.module().named.insert(path);
        }
    }

    fn use_tree(&mut self, tree: &UseTree, before: &[String], public: bool) {
        let path = |name: &syn::Ident| before.iter().cloned().chain([name.to_string()]).collect::<Names>();
        match tree {
            UseTree::Path(tree) => self.use_tree(&tree.tree, &path(&tree.ident), public),
            UseTree::Group(tree) => tree.items.iter().for_each(|item| self.use_tree(item, before, public)),
            UseTree::Name(tree) if tree.ident == "self" => self.imports(before.to_vec(), None, public),
            UseTree::Name(tree) => self.imports(path(&tree.ident), Some(tree.ident.to_string()), public),
            UseTree::Rename(tree) => self.imports(path(&tree.ident), Some(tree.rename.to_string()), public),
            UseTree::Glob(_) => self.imports(before.to_vec(), None, public),
        }
    }

    fn imports(&mut self, path: Names, name: Option<String>, public: bool) {
        if let Some(name) = name.filter(|_| public) {
            self.module().reexports.insert(name, path.clone());
        }
        // `use wgpu;` has one name.
        self.module().named.insert(path);
    }

    /// Paths in the arguments of a macro, which are not parsed.
    fn tokens(&mut self, tokens: TokenStream) {
        let (mut path, mut colons) = (Names::new(), 0);
        for token in tokens {
            match token {
                TokenTree::Ident(ident) if colons == 2 || path.is_empty() => path.push(ident.to_string()),
                TokenTree::Punct(punct) if punct.as_char() == ':' && !path.is_empty() => {
                    colons += 1;
                    continue;
                }
                other => {
                    self.names(std::mem::take(&mut path));
                    match other {
                        TokenTree::Group(group) => self.tokens(group.stream()),
                        TokenTree::Ident(ident) => path.push(ident.to_string()),
                        _ => {}
                    }
                }
            }
            colons = 0;
        }
        self.names(path);
    }
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        if !attributes(item).iter().any(is_test) {
            visit::visit_item(self, item);
        } else if let Item::Mod(module) = item {
            self.source.tests.insert(self.module.iter().cloned().chain([module.ident.to_string()]).collect());
        }
    }

    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        if item.content.is_some() {
            self.module.push(item.ident.to_string());
            let file = self.file.clone();
            self.module().file = file;
            visit::visit_item_mod(self, item);
            self.module.pop();
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        self.use_tree(&item.tree, &[], !matches!(item.vis, syn::Visibility::Inherited));
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let root = path.leading_colon.map(|_| String::new());
        self.names(root.into_iter().chain(path.segments.iter().map(|segment| segment.ident.to_string())).collect());
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast Macro) {
        self.visit_path(&call.path);
        self.tokens(call.tokens.clone());
    }
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Mod(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        _ => &[],
    }
}

fn is_test(attribute: &Attribute) -> bool {
    attribute.path().is_ident("test")
        || (attribute.path().is_ident("cfg")
            && attribute.parse_args::<syn::Path>().is_ok_and(|path| path.is_ident("test") || path.is_ident("doctest")))
}
