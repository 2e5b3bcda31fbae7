//! Serde types that take a value of their kind and read over any other (R-13: a wrong-typed field never loses the
//! message).
//!
//! They know JSON and nothing of the messages.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// A visitor's answers to all kinds of values that are not wanted.
macro_rules! read_over {
    ($($kind:ident)*) => { $(read_over!(@ $kind);)* };
    (@ unit) => { fn visit_unit<E>(self) -> Result<Self::Value, E> { Ok(Self::Value::default()) } };
    (@ bool) => { fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> { Ok(Self::Value::default()) } };
    (@ number) => {
        fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> { Ok(Self::Value::default()) }
        fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> { Ok(Self::Value::default()) }
        fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> { Ok(Self::Value::default()) }
    };
    (@ str) => { fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> { Ok(Self::Value::default()) } };
    (@ seq) => {
        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
            while seq.next_element::<IgnoredAny>()?.is_some() {}
            Ok(Self::Value::default())
        }
    };
    (@ map) => {
        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            Ok(Self::Value::default())
        }
    };
}

macro_rules! expecting {
    ($text:literal) => {
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str($text)
        }
    };
}

/// A string, borrowed where the JSON has no escape.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Text<'a>(pub Option<Cow<'a, str>>);

impl Text<'_> {
    /// The string, owned.
    pub(super) fn into_owned(self) -> Option<String> {
        self.0.map(Cow::into_owned)
    }

    /// The string, if there is one.
    pub(super) fn as_str(&self) -> Option<&str> {
        self.0.as_deref()
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visit;
        impl<'de> Visitor<'de> for Visit {
            type Value = Text<'de>;
            expecting!("a string");
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Text<'de>, E> {
                Ok(Text(Some(Cow::Borrowed(text))))
            }
            fn visit_str<E>(self, text: &str) -> Result<Text<'de>, E> {
                Ok(Text(Some(Cow::Owned(text.to_owned()))))
            }
            read_over!(unit bool number seq map);
        }
        deserializer.deserialize_any(Visit)
    }
}

/// `true` or `false`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Flag(pub Option<bool>);

impl<'de> Deserialize<'de> for Flag {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visit;
        impl<'de> Visitor<'de> for Visit {
            type Value = Flag;
            expecting!("a boolean");
            fn visit_bool<E>(self, value: bool) -> Result<Flag, E> {
                Ok(Flag(Some(value)))
            }
            read_over!(unit number str seq map);
        }
        deserializer.deserialize_any(Visit)
    }
}

/// A whole number that is not negative.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Count(pub Option<u64>);

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visit;
        impl<'de> Visitor<'de> for Visit {
            type Value = Count;
            expecting!("a whole number");
            fn visit_u64<E>(self, value: u64) -> Result<Count, E> {
                Ok(Count(Some(value)))
            }
            fn visit_i64<E>(self, value: i64) -> Result<Count, E> {
                Ok(Count(u64::try_from(value).ok()))
            }
            fn visit_f64<E>(self, value: f64) -> Result<Count, E> {
                // A float that holds a whole number; the cast is exact below 2^53 and saturates above.
                Ok(Count((value >= 0.0 && value.fract() == 0.0).then_some(value as u64)))
            }
            read_over!(unit bool str seq map);
        }
        deserializer.deserialize_any(Visit)
    }
}

/// A list; an element of another kind than `T` is what `T` makes of it.
#[derive(Debug, PartialEq)]
pub(super) struct List<T>(pub Vec<T>);

impl<T> Default for List<T> {
    fn default() -> Self {
        List(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visit<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Visit<T> {
            type Value = List<T>;
            expecting!("a list");
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<List<T>, A::Error> {
                let mut all = Vec::new();
                while let Some(one) = seq.next_element()? {
                    all.push(one);
                }
                Ok(List(all))
            }
            read_over!(unit bool number str map);
        }
        deserializer.deserialize_any(Visit(PhantomData))
    }
}

/// An object with the members of `T`.
#[derive(Debug, PartialEq)]
pub(super) struct Object<T>(pub Option<T>);

impl<T> Default for Object<T> {
    fn default() -> Self {
        Object(None)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visit<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Visit<T> {
            type Value = Object<T>;
            expecting!("an object");
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Object<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(|value| Object(Some(value)))
            }
            read_over!(unit bool number str seq);
        }
        deserializer.deserialize_any(Visit(PhantomData))
    }
}

/// An object as a list of its members, in their order.
#[derive(Debug, PartialEq)]
pub(super) struct Members<T>(pub Option<Vec<(String, T)>>);

impl<T> Default for Members<T> {
    fn default() -> Self {
        Members(None)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Members<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visit<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Visit<T> {
            type Value = Members<T>;
            expecting!("an object");
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<T>, A::Error> {
                let mut all = Vec::new();
                while let Some(member) = map.next_entry()? {
                    all.push(member);
                }
                Ok(Members(Some(all)))
            }
            read_over!(unit bool number str seq);
        }
        deserializer.deserialize_any(Visit(PhantomData))
    }
}
