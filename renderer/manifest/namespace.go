package manifest

import "bytes"

// InsertNamespace returns the canonical YAML of an object with a namespace. It inserts one line, which costs much less
// than decoding and encoding the object. It returns false, and nothing, if the text does not begin as Encode writes an
// object without metadata.namespace, or if the namespace needs more than one line.
func InsertNamespace(canonical []byte, namespace string) ([]byte, bool) {
	at := nameEnd(canonical)
	if at < 0 {
		return nil, false
	}
	scalar, err := Append(nil, namespace)
	if err != nil || bytes.IndexByte(scalar, '\n') != len(scalar)-1 {
		return nil, false
	}
	const key = "  namespace: "
	out := make([]byte, 0, len(canonical)+len(key)+len(scalar))
	out = append(out, canonical[:at]...)
	out = append(out, key...)
	out = append(out, scalar...)
	return append(out, canonical[at:]...), true
}

// nameEnd returns the position after the line of metadata.name; -1 if the object has a namespace, or its head is not
// canonical. Encode writes metadata.name on the fourth line.
func nameEnd(canonical []byte) int {
	at := 0
	for _, start := range []string{"apiVersion: ", "kind: ", "metadata:\n", "  name: "} {
		line := canonical[at:]
		end := bytes.IndexByte(line, '\n') + 1
		if end == 0 || !bytes.HasPrefix(line, []byte(start)) || len(line) == len(start) || line[len(start)] == '|' {
			return -1
		}
		at += end
	}
	if bytes.HasPrefix(canonical[at:], []byte("  namespace:")) {
		return -1
	}
	return at
}
