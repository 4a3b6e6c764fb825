package gitstore

import (
	"bufio"
	"crypto/sha1" //nolint:gosec // Git's packfiles
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/idxfile"
)

// seal completes the packfile: the count in its header, the checksum at its end.
func (w *Writer) seal() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.sealed {
		return nil
	}
	if err := w.out.Flush(); err != nil {
		return err
	}
	header := make([]byte, 0, packHeader)
	header = append(header, "PACK"...)
	header = binary.BigEndian.AppendUint32(header, 2)
	header = binary.BigEndian.AppendUint32(header, uint32(len(w.order))) //nolint:gosec // far below four billion
	if _, err := w.file.WriteAt(header, 0); err != nil {
		return err
	}
	sum := sha1.New() //nolint:gosec // Git's packfiles
	if _, err := io.Copy(sum, io.NewSectionReader(w.file, 0, w.offset)); err != nil {
		return err
	}
	if _, err := w.file.WriteAt(sum.Sum(nil), w.offset); err != nil {
		return err
	}
	w.sealed = true
	return nil
}

// reader is the whole packfile.
func (w *Writer) reader() io.Reader {
	return io.NewSectionReader(w.file, 0, w.offset+sha1.Size)
}

// storePack puts the packfile into a folder of objects, so that they stay.
func (w *Writer) storePack(into *folder) error {
	if err := w.seal(); err != nil {
		return fmt.Errorf("complete the packfile: %w", err)
	}
	if into == nil || len(w.order) == 0 {
		return nil
	}
	checksum, err := w.checksum()
	if err != nil {
		return err
	}
	if err := w.storeIn(filepath.Join(into.dir, "objects", "pack"), checksum); err != nil {
		return fmt.Errorf("store the packfile: %w", err)
	}
	into.mu.Lock()
	defer into.mu.Unlock()
	into.seen = into.packTime()
	into.storer.Reindex()
	return nil
}

// checksum is what a sealed packfile is named by.
func (w *Writer) checksum() (plumbing.Hash, error) {
	var out plumbing.Hash
	if _, err := w.file.ReadAt(out[:], w.offset); err != nil {
		return out, fmt.Errorf("complete the packfile: %w", err)
	}
	return out, nil
}

func (w *Writer) storeIn(dir string, checksum plumbing.Hash) error {
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // as Git's own folders
		return err
	}
	base := filepath.Join(dir, "pack-"+checksum.String())
	index, err := w.writeIndex(dir, checksum)
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(index) }()
	if err := errors.Join(w.file.Chmod(0o444), w.file.Sync()); err != nil {
		return err
	}
	if err := copyOrLink(w.file.Name(), base+".pack"); err != nil {
		return err
	}
	// Git looks for the index first: it comes last, so that a half-stored pack is never seen.
	if err := os.Rename(index, base+".idx"); err != nil {
		return err
	}
	return syncFolder(dir)
}

// syncFolder makes renames last through a power cut: a branch must not be on disk before its objects.
func syncFolder(dir string) error {
	d, err := os.Open(dir) //nolint:gosec // a repository's folder
	if err != nil {
		return err
	}
	_ = d.Sync() // not every file system knows it
	return d.Close()
}

func copyOrLink(from, to string) error {
	if _, err := os.Stat(to); err == nil || os.Link(from, to) == nil {
		return nil
	}
	in, err := os.Open(from) //nolint:gosec // our own temporary file
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	out, err := os.CreateTemp(filepath.Dir(to), "tmp_pack_")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(out.Name()) }()
	_, err = io.Copy(out, in)
	if err = errors.Join(err, out.Chmod(0o444), out.Sync(), out.Close()); err != nil {
		return err
	}
	return os.Rename(out.Name(), to)
}

// writeIndex writes the packfile's index from what is known already, without inflating anything, and gives its temporary
// name.
func (w *Writer) writeIndex(dir string, checksum plumbing.Hash) (string, error) {
	index := &idxfile.Writer{}
	if err := index.OnHeader(uint32(len(w.order))); err != nil { //nolint:gosec // far below four billion
		return "", err
	}
	for _, h := range w.order {
		p := w.objects[h]
		index.Add(plumbing.Hash(h), uint64(p.offset), p.crc) //nolint:gosec // never negative
	}
	if err := index.OnFooter(checksum); err != nil {
		return "", err
	}
	table, err := index.Index()
	if err != nil {
		return "", err
	}
	out, err := os.CreateTemp(dir, "tmp_idx_")
	if err != nil {
		return "", err
	}
	buffered := bufio.NewWriter(out)
	_, err = idxfile.NewEncoder(buffered).Encode(table)
	return out.Name(), errors.Join(err, buffered.Flush(), out.Chmod(0o444), out.Sync(), out.Close())
}
