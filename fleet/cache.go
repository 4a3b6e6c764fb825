package fleet

import (
	"crypto/sha256"
	"errors"
	"sync"

	"github.com/sluice-gitops/sluice/internal/memo"
)

// Cache keeps decoded files by content, so that reading a second commit decodes only the files that differ. Safe for
// concurrent use.
type Cache struct {
	files  sync.Map // content id + path → decodedFile
	values sync.Map // content id → *valuesFile
	refs   sync.Map // content id → []reference

	lists    sync.Map // patterns → fileList
	folders  sync.Map // content id + path of the folder with a workspace's apps → appFiles
	linkFree sync.Map // content ids of folders without symbolic links

	kept kept
}

// NewCache makes an empty cache.
func NewCache() *Cache { return &Cache{} }

// Keeping makes the cache take files that it does not have from m, and keep them there; m may be nil. It returns the cache. Call it before
// any other method.
func (c *Cache) Keeping(m *memo.File) *Cache {
	c.kept = kept{m}
	return c
}

type decodedFile struct {
	documents []document
	problems  Problems
	lost      bool // it has documents of which not even the kind is known
}

// decode reads and decodes a file. It also returns the id of the content.
func (c *Cache) decode(tree *linkTree, name string) (decodedFile, string) {
	out, id, read := c.decodeOnce(tree, name)
	if read {
		c.kept.keepFile(id, name, out)
	}
	return out, id
}

// decodeOnce is decode without keeping what it read for later runs. read reports whether it read the file.
func (c *Cache) decodeOnce(tree *linkTree, name string) (out decodedFile, id string, read bool) {
	tree.reads.add(tree.real(name)) // the cache may have what it says
	failed := func(err error) (decodedFile, string, bool) {
		return decodedFile{problems: Problems{{File: name, Severity: SeverityError, Message: readError(err)}}, lost: true}, "", false
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
	if out, ok := c.decoded(id, name); ok {
		return out, id, false
	}
	if data == nil {
		if data, err = readBounded(tree, name); err != nil {
			return failed(err)
		}
	}
	out = decodeFile(name, data)
	c.files.Store(contentKey(id, name), out)
	return out, id, true
}

// decoded returns a file that was decoded before, in this run or in an earlier one.
func (c *Cache) decoded(id, name string) (decodedFile, bool) {
	if known, ok := c.files.Load(contentKey(id, name)); ok {
		return known.(decodedFile), true //nolint:forcetypeassert // only files are stored here
	}
	out, ok := c.kept.file(id, name)
	if ok {
		c.files.Store(contentKey(id, name), out)
	}
	return out, ok
}

func contentKey(id, name string) string { return id + "\x00" + name }
