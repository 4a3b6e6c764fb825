package fleet

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"strings"
)

// contentID returns an id of the content at a path: the tree's own id, or a hash of the bytes.
func contentID(tree Tree, name string) (string, error) {
	info, err := tree.Stat(name)
	if err != nil {
		return "", err
	}
	if id, ok := idOf(info); ok {
		return id, nil
	}
	h := sha256.New()
	err = fs.WalkDir(tree, name, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := tree.ReadFile(p)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(data)
		_, err = fmt.Fprintf(h, "%s\x00%d\x00%x\n", strings.TrimPrefix(p, name), d.Type(), sum)
		return err
	})
	return hex.EncodeToString(h.Sum(nil)), err
}

// contentID caches ids by path: a fleet is one commit.
func (f *Fleet) contentID(name string) (string, error) {
	if known, ok := f.ids.Load(name); ok {
		return known.(string), nil //nolint:forcetypeassert // only this function stores here
	}
	id, err := contentID(f.tree, name)
	if err == nil {
		f.ids.Store(name, id)
	}
	return id, err
}

func idOf(info fs.FileInfo) (string, bool) {
	if id, ok := info.Sys().(fmt.Stringer); ok {
		return id.String(), true
	}
	return "", false
}
