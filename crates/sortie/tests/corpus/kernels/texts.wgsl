// Texts, one character to a word.
@group(0) @binding(0) var<storage, read> text: array<u32>;
@group(0) @binding(1) var<storage, read> words: array<u32>;
@group(0) @binding(2) var<storage, read_write> o: array<u32>;

// Where each of the words of four characters begins first, or -1.
@compute @workgroup_size(14)
fn string_search(@builtin(global_invocation_id) id: vec3<u32>) {
    let at = id.x * 4u;
    if at >= arrayLength(&words) { return; }
    var found = -1;
    for (var i = 0u; i + 4u <= arrayLength(&text); i++) {
        var same = true;
        for (var k = 0u; k < 4u; k++) {
            if text[i + k] != words[at + k] { same = false; break; }
        }
        if same { found = i32(i); break; }
    }
    o[id.x] = bitcast<u32>(found);
}

// The distance between the first twelve characters of the text and each word of twelve.
@compute @workgroup_size(14)
fn levenshtein(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x * 12u >= arrayLength(&words) { return; }
    var row: array<u32, 13>;
    for (var j = 0u; j <= 12u; j++) { row[j] = j; }
    for (var i = 0u; i < 12u; i++) {
        var diagonal = row[0];
        row[0] = i + 1u;
        for (var j = 1u; j <= 12u; j++) {
            let cost = select(1u, 0u, text[i] == words[id.x * 12u + j - 1u]);
            let next = min(min(row[j] + 1u, row[j - 1u] + 1u), diagonal + cost);
            diagonal = row[j];
            row[j] = next;
        }
    }
    o[id.x] = row[12];
}
