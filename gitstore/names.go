package gitstore

import (
	"encoding/binary"
	"time"

	"github.com/sluice-gitops/sluice/internal/memo"
)

// keptNames keeps the names in the folders of a working tree between runs, as Git's untracked cache does: a folder whose identity is the same
// has the same names. A working tree has thousands of folders, of which hardly any changes from one run to the next, and looking at a folder
// costs a quarter of listing it. Files are looked at in each run. It is for one walk at a time; a nil keptNames keeps nothing.
type keptNames struct {
	file *memo.File
	// before is when the walk began, or earlier: the names of folders that changed later are not kept.
	before time.Time
}

// folderIdentity is what the system says of a folder: its file system, its number there, and when its names (mtime) and when it or its names
// changed last (ctime; no program can set it).
type folderIdentity struct {
	device, number    uint64
	modified, changed time.Time
}

const (
	namesFile    = "names"
	namesVersion = "names in a folder, 1" // another text makes a new version forget the names of an old one
	// resting is how long a folder has to be unchanged before its names are kept. A folder that changes twice within one step of the clock of
	// its file system has the same times after both. The longest step of a file system that is trusted is a second.
	resting = 2 * time.Second
)

// openNames returns the names that earlier runs kept in a repository, for a walk that begins now or later.
func openNames(s *Store, now time.Time) *keptNames {
	name := CacheFile(s, namesFile)
	if name == "" {
		return nil
	}
	return &keptNames{file: memo.Open(name, namesVersion), before: now.Add(-resting)}
}

func (k *keptNames) save() {
	if k != nil {
		_ = k.file.Save() // without it, the next run lists more folders
	}
}

func (i folderIdentity) key() memo.Key {
	var b []byte
	for _, n := range []int64{i.modified.Unix(), int64(i.modified.Nanosecond()), i.changed.Unix(), int64(i.changed.Nanosecond())} {
		b = binary.BigEndian.AppendUint64(b, uint64(n)) //nolint:gosec // its bits
	}
	b = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(b, i.device), i.number)
	return memo.KeyOf(string(b))
}

// get returns the names in a folder.
func (k *keptNames) get(i folderIdentity) ([]dirItem, bool) {
	data, ok := k.file.Get(i.key())
	if !ok {
		return nil, false
	}
	n, size := binary.Uvarint(data)
	if size <= 0 || n > uint64(len(data)) {
		return nil, false
	}
	data = data[size:]
	out := make([]dirItem, n)
	for j := range out {
		head, size := binary.Uvarint(data)
		data = data[max(size, 0):]
		if size <= 0 || head>>1 > uint64(len(data)) {
			return nil, false
		}
		out[j] = dirItem{string(data[:head>>1]), head&1 == 1}
		data = data[head>>1:]
	}
	return out, len(data) == 0
}

// put keeps the names that a folder had when, or after, it had an identity.
func (k *keptNames) put(i folderIdentity, list []dirItem) {
	if !k.file.Puts() || !i.modified.Before(k.before) || !i.changed.Before(k.before) {
		return
	}
	data := binary.AppendUvarint(nil, uint64(len(list)))
	for _, item := range list {
		head := uint64(len(item.name)) << 1
		if item.isDir {
			head |= 1
		}
		data = append(binary.AppendUvarint(data, head), item.name...)
	}
	k.file.Put(i.key(), data)
}

// list returns the names in a folder, in any order; at is its path from root with slashes.
func (w *walker) list(at string) ([]dirItem, error) {
	if w.names != nil {
		if now, ok := w.disk.identity(at); ok {
			if list, ok := w.names.get(now); ok {
				return list, nil
			}
		}
	}
	w.listed++
	list, before, err := w.disk.list(at)
	if err == nil && w.names != nil && before != (folderIdentity{}) {
		w.names.put(before, list)
	}
	return list, err
}
