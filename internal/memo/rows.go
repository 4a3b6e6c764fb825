package memo

import "encoding/binary"

// AppendRow appends a row of a list to the rows before it. Rows are in the order of their names, each of which is there once. A list of results
// that are always used together is one result of a File: finding each of thousands by a key of its own takes longer than decoding it.
func AppendRow(to []byte, name, id string, value []byte) []byte {
	to = append(binary.AppendUvarint(to, uint64(len(name))), name...)
	to = append(binary.AppendUvarint(to, uint64(len(id))), id...)
	return append(binary.AppendUvarint(to, uint64(len(value))), value...)
}

// Rows finds rows of a list in the order of their names. The zero Rows has none.
type Rows struct {
	rest            []byte
	name, id, value []byte // of the first row that is not in rest
	ok              bool
	begun           bool // Find or Next was called
}

// RowsOf returns the rows that AppendRow encoded.
func RowsOf(list []byte) Rows {
	r := Rows{rest: list}
	r.next()
	return r
}

// Find returns the value of a row with a name and an id. Each name that is looked for is greater than the one before. The caller does not change
// the value.
func (r *Rows) Find(name, id string) ([]byte, bool) {
	r.begun = true
	for r.ok && string(r.name) < name {
		r.next()
	}
	if !r.ok || string(r.name) != name || string(r.id) != id {
		return nil, false
	}
	return r.value, true
}

// Next goes to the next row, or to the first if Find was not called; false if there is none. Do not call Find afterwards.
func (r *Rows) Next() bool {
	if r.begun {
		r.next()
	}
	r.begun = true
	return r.ok
}

// Row returns the row that Next went to. The caller does not change the value.
func (r *Rows) Row() (name, id string, value []byte) { return string(r.name), string(r.id), r.value }

func (r *Rows) next() {
	r.ok = len(r.rest) > 0 && r.take(&r.name) && r.take(&r.id) && r.take(&r.value)
}

func (r *Rows) take(into *[]byte) bool {
	n, size := binary.Uvarint(r.rest)
	if size <= 0 || n > maxSize || int(n) > len(r.rest)-size {
		r.rest = nil
		return false
	}
	end := size + int(n)
	*into, r.rest = r.rest[size:end:end], r.rest[end:]
	return true
}
