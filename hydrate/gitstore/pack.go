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
	"syscall"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/idxfile"
)

// seal completes the packfile: it writes the number of objects into the header, and the checksum at the end.
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

// reader reads the sealed packfile.
func (w *Writer) reader() io.Reader {
	return io.NewSectionReader(w.file, 0, w.offset+sha1.Size)
}

// storePack moves the packfile into a folder of objects.
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
	if err := w.storeIn(into, checksum); err != nil {
		return fmt.Errorf("store the packfile: %w", err)
	}
	into.list(true)
	return nil
}

// checksum returns the checksum of a sealed packfile, which is part of its name.
func (w *Writer) checksum() (plumbing.Hash, error) {
	var out plumbing.Hash
	if _, err := w.file.ReadAt(out[:], w.offset); err != nil {
		return out, fmt.Errorf("complete the packfile: %w", err)
	}
	return out, nil
}

func (w *Writer) storeIn(into *folder, checksum plumbing.Hash) (err error) {
	dir, d := into.packDir(), into.disk
	if err := d.MkdirAll(dir); err != nil {
		return err
	}
	base := filepath.Join(dir, "pack-"+checksum.String())
	if installed(base) {
		return nil
	}
	index, err := w.writeIndex(d, dir, checksum)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.stored {
		file, ok := w.file.(*os.File)
		if !ok {
			return fmt.Errorf("store a packfile: %w", errNoDisk)
		}
		err = errors.Join(file.Chmod(0o444), d.Sync(file))
		if err == nil {
			err = install(d, base, w.file.Name(), index)
		}
		if w.stored = err == nil; w.stored || !errors.Is(err, syscall.EXDEV) {
			return err
		}
	}
	name, err := copyTemp(d, w.reader(), dir) // already stored elsewhere, or on another file system
	if err != nil {
		return err
	}
	return install(d, base, name, index)
}

// writeIndex writes the packfile's index from the recorded offsets and checksums, and returns its temporary name.
func (w *Writer) writeIndex(d disk, dir string, checksum plumbing.Hash) (string, error) {
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
	out, err := d.CreateTemp(dir, tempIndex)
	if err != nil {
		return "", err
	}
	buffered := bufio.NewWriter(out)
	_, err = idxfile.NewEncoder(buffered).Encode(table)
	return out.Name(), errors.Join(err, buffered.Flush(), out.Chmod(0o444), d.Sync(out), out.Close())
}
