package artifacts

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/sluice-gitops/sluice/gitstore"
)

// Bounds of an archive.
const (
	maxLayer   = 128 << 20 // bytes, compressed
	maxContent = 1 << 30   // bytes of its files
)

// file is an entry of a tree: a file or a folder.
type file struct {
	path string
	mode fs.FileMode
	hash gitstore.Hash
}

// filesOf lists the files and folders of a tree, folders before what is in them, by name. It refuses links and
// submodules, which no rendering has.
func filesOf(snapshot *gitstore.Snapshot) ([]file, error) {
	var out []file
	err := fs.WalkDir(snapshot, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == "." {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if !d.IsDir() && !d.Type().IsRegular() {
			return fmt.Errorf("%s is neither a file nor a folder", path)
		}
		hash, ok := info.Sys().(gitstore.Hash)
		if !ok {
			return fmt.Errorf("%s has no hash", path)
		}
		out = append(out, file{path, info.Mode(), hash})
		return nil
	})
	return out, err
}

// pack returns the archive of a tree, compressed, and the digest of what is compressed. Equal trees give equal bytes.
func pack(ctx context.Context, store *gitstore.Store, tree gitstore.Hash) ([]byte, digest.Digest, error) {
	snapshot := store.Snapshot(ctx, tree)
	files, err := filesOf(snapshot)
	if err != nil {
		return nil, "", err
	}
	if err := ensure(ctx, store, files); err != nil {
		return nil, "", err
	}
	var out bytes.Buffer
	sum := sha256.New()
	compressed := gzip.NewWriter(&out)
	archive := tar.NewWriter(io.MultiWriter(compressed, sum))
	var total int64
	for _, f := range files {
		h := &tar.Header{Name: f.path, Mode: int64(f.mode.Perm()), ModTime: time.Unix(0, 0), Typeflag: tar.TypeReg}
		var data []byte
		if f.mode.IsDir() {
			h.Name, h.Typeflag = f.path+"/", tar.TypeDir
		} else if data, err = snapshot.ReadFile(f.path); err != nil {
			return nil, "", err
		}
		h.Size = int64(len(data))
		if total += h.Size; total > maxContent || out.Len() > maxLayer {
			return nil, "", fmt.Errorf("the files are larger than an artifact may be: %d MiB, and %d MiB compressed",
				maxContent>>20, maxLayer>>20)
		}
		if err := archive.WriteHeader(h); err != nil {
			return nil, "", err
		}
		if _, err := archive.Write(data); err != nil {
			return nil, "", err
		}
	}
	if err := archive.Close(); err != nil {
		return nil, "", err
	}
	if err := compressed.Close(); err != nil {
		return nil, "", err
	}
	return out.Bytes(), digest.NewDigest(digest.SHA256, sum), nil
}

// ensure fetches the files that a partial clone lacks, with one request.
func ensure(ctx context.Context, store *gitstore.Store, files []file) error {
	var hashes []gitstore.Hash
	for _, f := range files {
		if !f.mode.IsDir() {
			hashes = append(hashes, f.hash)
		}
	}
	return store.Ensure(ctx, hashes...)
}
