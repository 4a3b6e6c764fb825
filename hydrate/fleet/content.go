package fleet

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"strings"
)

func (c *Cache) decode(tree *linkTree, name string) decodedFile {
	tree.reads.add(tree.real(name)) // the cache may have what it says
	failed := func(err error) decodedFile {
		return decodedFile{problems: Problems{{File: name, Severity: SeverityError, Message: readError(err)}}, lost: true}
	}
	info, err := tree.Stat(name)
	if err != nil {
		return failed(err)
	}
	if !info.Mode().IsRegular() {
		return failed(errors.New("this is a folder or a submodule, not a file"))
	}
	var data []byte
	id, known := idOf(info)
	if !known { // the tree has no ids: hash the bytes
		if data, err = readBounded(tree, name); err != nil {
			return failed(err)
		}
		sum := sha256.Sum256(data)
		id = string(sum[:])
	}
	key := id + "\x00" + name
	if known, ok := c.files.Load(key); ok {
		return known.(decodedFile) //nolint:forcetypeassert // only this function stores here
	}
	if data == nil {
		if data, err = readBounded(tree, name); err != nil {
			return failed(err)
		}
	}
	out := decodeFile(name, data)
	c.files.Store(key, out)
	return out
}

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
