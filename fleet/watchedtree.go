package fleet

import "io/fs"

// watchedTree is the tree that an importer reads. It does not follow links. An error of the storage in the fleet's own files makes Load fail,
// even if the importer treats it as an error of one target or file.
type watchedTree struct{ links *linkTree }

// Open implements fs.FS.
func (t watchedTree) Open(name string) (fs.File, error) {
	f, err := t.links.Open(name)
	return f, t.links.watch(name, err)
}

// ReadFile implements fs.ReadFileFS.
func (t watchedTree) ReadFile(name string) ([]byte, error) {
	data, err := t.links.Tree.ReadFile(name)
	return data, t.links.watch(name, err)
}

// ReadDir implements fs.ReadDirFS.
func (t watchedTree) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := t.links.Tree.ReadDir(name)
	return entries, t.links.watch(name, err)
}

// Stat implements fs.StatFS.
func (t watchedTree) Stat(name string) (fs.FileInfo, error) {
	info, err := t.links.Tree.Stat(name)
	return info, t.links.watch(name, err)
}
