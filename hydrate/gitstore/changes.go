package gitstore

import "context"

// Change is a path whose entry differs between two trees; a zero Hash means that the tree does not have it.
type Change struct {
	Path     string
	Old, New Entry
}

// Changes lists the files that differ between two trees, by path. It does not read equal subtrees. A zero hash is an empty tree.
func (s *Store) Changes(ctx context.Context, a, b Hash) ([]Change, error) {
	var out []Change
	err := s.changes(ctx, "", a, b, &out)
	return out, err
}

func (s *Store) changes(ctx context.Context, prefix string, a, b Hash, out *[]Change) error {
	if a == b {
		return nil
	}
	before, err := s.entries(ctx, a)
	if err != nil {
		return err
	}
	after, err := s.entries(ctx, b)
	if err != nil {
		return err
	}
	for i, j := 0, 0; i < len(before) || j < len(after); {
		var x, y Entry
		switch {
		case j == len(after) || i < len(before) && before[i].sortKey() < after[j].sortKey():
			x, i = before[i], i+1
		case i == len(before) || after[j].sortKey() < before[i].sortKey():
			y, j = after[j], j+1
		default:
			x, y, i, j = before[i], after[j], i+1, j+1
		}
		if x == y {
			continue
		}
		if err := s.change(ctx, prefix, x, y, out); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) change(ctx context.Context, prefix string, x, y Entry, out *[]Change) error {
	name := prefix + x.Name
	if x.Name == "" {
		name = prefix + y.Name
	}
	var below, above Hash
	if x.Mode == ModeTree {
		below, x = x.Hash, Entry{}
	}
	if y.Mode == ModeTree {
		above, y = y.Hash, Entry{}
	}
	if x != y {
		*out = append(*out, Change{Path: name, Old: x, New: y})
	}
	return s.changes(ctx, name+"/", below, above, out)
}

func (s *Store) entries(ctx context.Context, h Hash) ([]Entry, error) {
	if h.IsZero() {
		return nil, nil
	}
	return s.Tree(ctx, h)
}
