package gitstore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// treeOnDisk reads a folder and those below it. os.ReadDir and os.Lstat take twice the time for thousands of small folders: they sort, allocate
// for each file, and have the kernel look up each name from the root of the file system.
type treeOnDisk struct {
	root  string
	fd    int
	buf   [32 << 10]byte // of one call of getdents
	items []dirItem      // reused

	identifies bool   // see identify
	device     uint64 // the file system of root, if identifies is set
}

// openTree opens a folder. Close it.
func openTree(root string) (*treeOnDisk, error) {
	fd, err := again(func() (int, error) { return unix.Open(root, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: root, Err: err}
	}
	return &treeOnDisk{root: root, fd: fd}, nil
}

func (t *treeOnDisk) close() { _ = unix.Close(t.fd) } // opened for reading only

// again calls a function until no signal interrupts it.
func again[T any](f func() (T, error)) (T, error) {
	for {
		out, err := f()
		if !errors.Is(err, unix.EINTR) {
			return out, err
		}
	}
}

// identify has the folders of root's file system identified, if each change of a folder's names changes its times there. That holds for local
// file systems of Linux. Servers and other systems may cache times or not keep them, as `git update-index --test-untracked-cache` finds out.
func (t *treeOnDisk) identify() {
	var of unix.Statfs_t
	var root unix.Stat_t
	if unix.Fstatfs(t.fd, &of) != nil || unix.Fstat(t.fd, &root) != nil {
		return
	}
	switch int64(of.Type) { //nolint:unconvert // its type depends on the processor
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC, unix.TMPFS_MAGIC:
		t.identifies, t.device = true, root.Dev
	}
}

// identity returns what identifies a folder; at is its path from root with slashes. It is false if nothing does.
func (t *treeOnDisk) identity(at string) (folderIdentity, bool) {
	var info unix.Stat_t
	if !t.identifies || unix.Fstatat(t.fd, below(at), &info, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return folderIdentity{}, false
	}
	return t.identityOf(&info)
}

func (t *treeOnDisk) identityOf(info *unix.Stat_t) (folderIdentity, bool) {
	if info.Dev != t.device || info.Mode&unix.S_IFMT != unix.S_IFDIR {
		return folderIdentity{}, false
	}
	return folderIdentity{device: info.Dev, number: info.Ino, modified: time.Unix(info.Mtim.Unix()), changed: time.Unix(info.Ctim.Unix())}, true
}

// below is a path from a folder for the system, which does not take an empty one.
func below(at string) string {
	if at == "" {
		return "."
	}
	return at
}

// list returns the names in a folder, in any order; at is its path from root with slashes. It does not follow a link. It also returns what
// identified the folder before it was read; zero if nothing does.
func (t *treeOnDisk) list(at string) ([]dirItem, folderIdentity, error) {
	fd, err := again(func() (int, error) {
		return unix.Openat(t.fd, below(at), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return nil, folderIdentity{}, t.failed("open", at, err)
	}
	defer func() { _ = unix.Close(fd) }() // opened for reading only
	var is folderIdentity
	if t.identifies {
		var info unix.Stat_t
		if unix.Fstat(fd, &info) == nil {
			is, _ = t.identityOf(&info)
		}
	}
	t.items = t.items[:0]
	for {
		n, err := again(func() (int, error) { return unix.Getdents(fd, t.buf[:]) })
		if err != nil {
			return nil, folderIdentity{}, t.failed("readdirent", at, err)
		}
		if n <= 0 {
			return slices.Clone(t.items), is, nil
		}
		if err := t.parse(at, t.buf[:n]); err != nil {
			return nil, folderIdentity{}, err
		}
	}
}

// parse adds the entries of a folder to items. Each has an inode and an offset of 8 bytes, its length of 2, its type of one, and its name up to
// a zero byte; see getdents64(2).
func (t *treeOnDisk) parse(at string, data []byte) error {
	const length, kind, text = 16, 18, 19
	for len(data) > text {
		size := int(binary.NativeEndian.Uint16(data[length:]))
		if size <= text || size > len(data) {
			return t.failed("readdirent", at, unix.EIO)
		}
		raw, _, _ := bytes.Cut(data[text:size], []byte{0})
		is := data[kind]
		data = data[size:]
		if string(raw) == "." || string(raw) == ".." {
			continue
		}
		item := dirItem{string(raw), is == unix.DT_DIR}
		if is == unix.DT_UNKNOWN { // some file systems do not say
			info, err := t.lstat(inFolder(at, item.name))
			if errors.Is(err, fs.ErrNotExist) {
				continue // removed meanwhile
			}
			if err != nil {
				return err
			}
			item.isDir = info.Mode&unix.S_IFMT == unix.S_IFDIR
		}
		t.items = append(t.items, item)
	}
	return nil
}

// stat returns what a file is; at is its path from root with slashes.
func (t *treeOnDisk) stat(at string) (fileStat, error) {
	info, err := t.lstat(at)
	if err != nil {
		return fileStat{}, err
	}
	out := fileStat{mode: fs.FileMode(info.Mode).Perm(), size: info.Size, modified: time.Unix(info.Mtim.Unix())}
	switch info.Mode & unix.S_IFMT {
	case unix.S_IFREG:
	case unix.S_IFLNK:
		out.mode |= fs.ModeSymlink
	default:
		out.mode |= fs.ModeIrregular
	}
	return out, nil
}

func (t *treeOnDisk) lstat(at string) (out unix.Stat_t, err error) {
	_, err = again(func() (struct{}, error) { return struct{}{}, unix.Fstatat(t.fd, at, &out, unix.AT_SYMLINK_NOFOLLOW) })
	if err != nil {
		return out, t.failed("lstat", at, err)
	}
	return out, nil
}

func (t *treeOnDisk) failed(what, at string, err error) error {
	return &fs.PathError{Op: what, Path: filepath.Join(t.root, at), Err: err}
}
