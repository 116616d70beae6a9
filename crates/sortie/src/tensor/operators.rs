//! `+`, `-`, `*` and `/` of tensors and numbers.

use std::ops::{Add, Div, Mul, Neg, Sub};

use half::f16;
use sortie_plan::Function;

use super::{Element, Operand, Signed, Tensor};

impl<T: Signed> Neg for Tensor<'_, T> {
    type Output = Self;

    #[track_caller]
    fn neg(self) -> Self {
        self.unary("neg", Function::Neg)
    }
}

/// An operator with a tensor on its left side: tensor or number on the right.
macro_rules! operator {
    ($($Trait:ident $method:ident)*) => {$(
        impl<'b, T: Element, R: Into<Operand<'b, T>>> $Trait<R> for Tensor<'b, T> {
            type Output = Self;

            #[track_caller]
            fn $method(self, right: R) -> Self {
                self.binary(stringify!($method), Function::$Trait, right)
            }
        }

        operator!($Trait $method: f32, f32);
        operator!($Trait $method: f32, f16);
        operator!($Trait $method: u32, u32);
        operator!($Trait $method: i32, i32);
    )*};
    // A number on the left.
    ($Trait:ident $method:ident: $number:ty, $T:ty) => {
        impl<'b> $Trait<Tensor<'b, $T>> for $number {
            type Output = Tensor<'b, $T>;

            #[track_caller]
            fn $method(self, right: Tensor<'b, $T>) -> Tensor<'b, $T> {
                right.with_left(stringify!($method), Function::$Trait, self)
            }
        }
    };
}

operator! { Add add Sub sub Mul mul Div div }
