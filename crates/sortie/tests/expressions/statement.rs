//! Statements.

use crate::{
    scope::{Array, Scope},
    types::{Kind, Type},
};

/// Indented by four for each level.
fn line(out: &mut String, level: usize, text: &str) {
    out.push_str(&"    ".repeat(level));
    out.push_str(text);
    out.push('\n');
}

impl Scope<'_> {
    /// Some statements; what they declare stays in scope.
    pub(crate) fn statements(&mut self, out: &mut String, level: usize, most: usize) {
        for _ in 0..self.tape.pick(most + 1) {
            if !self.tape.spend() {
                return;
            }
            self.statement(out, level);
        }
    }

    /// A block; what it declares is forgotten.
    fn block(&mut self, out: &mut String, level: usize) {
        let (variables, arrays) = (self.variables.len(), self.arrays.len());
        self.statements(out, level, 3);
        if self.loops > 0 && self.tape.chance(3) {
            self.leave(out, level);
            self.statements(out, level, 2);
        }
        self.variables.truncate(variables);
        self.arrays.truncate(arrays);
    }

    /// One statement, and what stands in it.
    pub(crate) fn statement(&mut self, out: &mut String, level: usize) {
        let deep = level > 3;
        match self.tape.pick(13) {
            0 | 1 => {
                let ty = Type::read(&mut self.tape, self.family);
                let value = self.value(ty, 3);
                let mutable = self.tape.pick(2) == 1;
                let name = self.fresh(if mutable { "v" } else { "c" });
                line(out, level, &format!("{} {name} = {value};", if mutable { "var" } else { "let" }));
                self.declare(&name, ty, mutable);
            }
            2 | 3 => self.assignment(out, level),
            4 => {
                let ty = Type::read(&mut self.tape, self.family);
                let (name, len) = (self.fresh("a"), 2 + self.tape.pick(5));
                line(out, level, &format!("var {name}: array<{ty}, {len}>;"));
                self.arrays.push(Array { name, ty, len });
            }
            5 | 6 => self.element(out, level),
            7 if !deep => {
                let condition = self.expression(Type::scalar(Kind::Bool), 2);
                line(out, level, &format!("if {condition} {{"));
                self.block(out, level + 1);
                if self.tape.pick(2) == 1 {
                    line(out, level, "} else {");
                    self.block(out, level + 1);
                }
                line(out, level, "}");
            }
            8 if !deep => self.switch(out, level),
            9 | 10 if !deep && self.loops < 2 => self.repeat(out, level),
            11 => self.leave(out, level),
            12 if !self.functions.is_empty() => {
                let function = self.functions[self.tape.pick(self.functions.len())].clone();
                let pointee = function.pointer.map(|ty| {
                    let (name, value) = (self.fresh("w"), self.value(ty, 2));
                    line(out, level, &format!("var {name} = {value};"));
                    self.declare(&name, ty, true);
                    name
                });
                let (call, name) = (self.call(&function, pointee.as_deref(), 3), self.fresh("g"));
                line(out, level, &format!("let {name} = {call};"));
                self.declare(&name, function.returns, false);
            }
            _ => self.assignment(out, level),
        }
    }

    /// Out of a loop or a function, or on to the next iteration, for some.
    fn leave(&mut self, out: &mut String, level: usize) {
        let condition = self.expression(Type::scalar(Kind::Bool), 2);
        let leave = match (self.loops, self.tape.pick(4), self.returns) {
            (1.., 0 | 1, _) => "break".into(),
            (1.., 2, _) => "continue".into(),
            (_, _, Some(ty)) => format!("return {}", self.value(ty, 2)),
            // Seldom: what leaves the entry point gives no outputs.
            (_, 3, None) => "return".into(),
            _ => return,
        };
        line(out, level, &format!("if {condition} {{ {leave}; }}"));
    }

    fn assignment(&mut self, out: &mut String, level: usize) {
        let Some(target) = self.variable(|variable| variable.mutable) else { return };
        let ty = target.ty;
        match self.tape.pick(4) {
            1 if ty.width > 1 => {
                let scalar = Type::scalar(ty.kind);
                let value = self.value(scalar, 3);
                let place = if self.tape.pick(2) == 0 {
                    format!("{}.{}", target.name, ['x', 'y', 'z', 'w'][self.tape.pick(ty.width)])
                } else {
                    format!("{}[{} % {}u]", target.name, self.expression(Type::scalar(Kind::U32), 1), ty.width)
                };
                line(out, level, &format!("{place} = {value};"));
            }
            2 if matches!(ty.kind, Kind::U32 | Kind::I32) => {
                let operator = ["+", "-", "*", "&", "|", "^", "/", "%"][self.tape.pick(8)];
                line(out, level, &format!("{} {operator}= {};", target.name, self.expression(ty, 3)));
            }
            3 if ty.width == 1 && matches!(ty.kind, Kind::U32 | Kind::I32) => {
                line(out, level, &format!("{}{};", target.name, ["++", "--"][self.tape.pick(2)]));
            }
            _ => {
                let value = self.value(ty, 4);
                line(out, level, &format!("{} = {value};", target.name));
            }
        }
    }

    fn element(&mut self, out: &mut String, level: usize) {
        if self.arrays.is_empty() {
            return;
        }
        let array = self.arrays[self.tape.pick(self.arrays.len())].clone();
        let index = self.expression(Type::scalar(Kind::U32), 2);
        let value = self.value(array.ty, 3);
        line(out, level, &format!("{}[{index} % {}u] = {value};", array.name, array.len));
    }

    fn switch(&mut self, out: &mut String, level: usize) {
        let kind = [Kind::U32, Kind::I32][self.tape.pick(2)];
        let count = 1 + self.tape.pick(3);
        let default = self.tape.pick(count + 1);
        let suffix = if kind == Kind::U32 { "u" } else { "" };
        let selector = self.expression(Type::scalar(kind), 2);
        line(out, level, &format!("switch {selector} % {}{suffix} {{", 2 * count + 1));
        for case in 0..=count {
            let head = if case == default {
                "default".into()
            } else if self.tape.pick(2) == 0 {
                format!("case {case}{suffix}")
            } else {
                format!("case {case}{suffix}, {}{suffix}", case + count + 1)
            };
            line(out, level + 1, &format!("{head}: {{"));
            self.block(out, level + 2);
            line(out, level + 1, "}");
        }
        line(out, level, "}");
    }

    /// A loop of a few iterations, whose counter no other statement changes.
    fn repeat(&mut self, out: &mut String, level: usize) {
        let counter = self.fresh("k");
        let bound = if self.tape.pick(2) == 0 {
            format!("{}u", 1 + self.tape.pick(4))
        } else {
            format!("{} % 5u", self.expression(Type::scalar(Kind::U32), 1))
        };
        self.loops += 1;
        let declared = self.variables.len();
        let form = self.tape.pick(3);
        if form != 1 {
            self.declare(&counter, Type::scalar(Kind::U32), false);
        }
        match form {
            0 => {
                line(out, level, &format!("for (var {counter} = 0u; {counter} < {bound}; {counter}++) {{"));
                self.block(out, level + 1);
            }
            // The bound is evaluated again in each iteration, and the counter goes up before anything can go on.
            1 => {
                line(out, level, &format!("var {counter} = 0u;"));
                line(out, level, &format!("while {counter} < {bound} {{"));
                line(out, level + 1, &format!("{counter} += 1u;"));
                self.block(out, level + 1);
            }
            _ => {
                line(out, level, &format!("var {counter} = 0u;"));
                line(out, level, "loop {");
                self.block(out, level + 1);
                line(out, level + 1, &format!("continuing {{ {counter} += 1u; break if {counter} >= {bound}; }}"));
            }
        }
        line(out, level, "}");
        self.variables.truncate(declared);
        self.loops -= 1;
    }
}
