package fleet

import (
	"crypto/sha256"
	"errors"
	"sync"
)

// Cache keeps decoded files by content, so that reading a second commit decodes only the files that differ. Safe for
// concurrent use.
type Cache struct {
	files  sync.Map // content id + path → decodedFile
	values sync.Map // content id → *valuesFile
	refs   sync.Map // content id → []reference

	folders  sync.Map // content id + path of the folder with a workspace's apps → appFiles
	linkFree sync.Map // content ids of folders without symbolic links
}

// NewCache makes an empty cache.
func NewCache() *Cache { return &Cache{} }

type decodedFile struct {
	documents []document
	problems  Problems
	lost      bool // it has documents of which not even the kind is known
}

// decode reads and decodes a file.
func (c *Cache) decode(tree *linkTree, name string) decodedFile {
	tree.reads.add(tree.real(name)) // the cache may have what it says
	failed := func(err error) decodedFile {
		return decodedFile{
			problems: Problems{{File: name, Severity: SeverityError, Message: readError(err)}},
			lost:     true,
		}
	}
	info, err := tree.Stat(name)
	if err != nil {
		return failed(err)
	}
	if !info.Mode().IsRegular() {
		return failed(errors.New("this is a folder or a submodule, not a file"))
	}
	var data []byte
	id, hasID := idOf(info)
	if !hasID { // the tree has no ids: hash the bytes
		if data, err = readBounded(tree, name); err != nil {
			return failed(err)
		}
		sum := sha256.Sum256(data)
		id = string(sum[:])
	}
	if known, ok := c.files.Load(contentKey(id, name)); ok {
		return known.(decodedFile) //nolint:forcetypeassert // only files are stored here
	}
	if data == nil {
		if data, err = readBounded(tree, name); err != nil {
			return failed(err)
		}
	}
	out := decodeFile(name, data)
	c.files.Store(contentKey(id, name), out)
	return out
}

func contentKey(id, name string) string { return id + "\x00" + name }
