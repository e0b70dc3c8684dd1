//! The order of merged lists in strategic merge patches.
//!
//! In: items named by the patch and items only the server has, with the order that each side wants. Out: one list.
//! Guaranteed: each side's own order; the two are interleaved by the server's order where it decides. Deliberately not
//! done: anything about what the items hold.

use serde_json::Value;

/// Interleaves the items the patch names with the others.
pub(super) fn interleave(
    mut patch_items: Vec<Value>,
    mut server_items: Vec<Value>,
    patch_order: &[Value],
    server_order: &[Value],
    key: Option<&str>,
) -> Vec<Value> {
    sort(&mut patch_items, patch_order, key);
    sort(&mut server_items, server_order, key);
    let mut out = Vec::with_capacity(patch_items.len() + server_items.len());
    let mut patch_items = patch_items.into_iter().peekable();
    let mut server_items = server_items.into_iter().peekable();
    loop {
        let server_first = match (server_items.peek(), patch_items.peek()) {
            (None, None) => return out,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (Some(server), Some(patch)) => {
                let places = (place(server_order, server, key), place(server_order, patch, key));
                matches!(places, (Some(a), Some(b)) if a < b)
            }
        };
        out.extend(if server_first { server_items.next() } else { patch_items.next() });
    }
}

/// Sorts by insertion; an item whose place is unknown goes before all that precede it, as on the real server.
fn sort(items: &mut [Value], order: &[Value], key: Option<&str>) {
    for i in 1..items.len() {
        let mut j = i;
        while j > 0 {
            let places = (items.get(j).map(|v| place(order, v, key)), items.get(j - 1).map(|v| place(order, v, key)));
            if matches!(places, (Some(Some(a)), Some(Some(b))) if a >= b) {
                break;
            }
            items.swap(j, j - 1);
            j -= 1;
        }
    }
}

fn place(order: &[Value], item: &Value, key: Option<&str>) -> Option<usize> {
    let of = |value: &'_ Value| match key {
        Some(key) => value.get(key).cloned(),
        None => Some(value.clone()),
    };
    let wanted = of(item);
    order.iter().position(|value| of(value) == wanted)
}
