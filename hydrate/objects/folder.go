package objects

import (
	"context"
	"encoding/binary"

	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/internal/memo"
)

// Keep has the inventory remember the names of the files in the folders of workspaces between runs, by the id of each folder. It remembers
// those of one cluster, the first that Owners indexes: most clusters have the same folders. Call it before Owners.
func (v *Inventory) Keep(memory *memo.File) { v.memory = memory }

// appFile is a file of an app in the folder of a workspace; the name of the app is without that of the workspace.
type appFile struct {
	app, name string
	hash      gitstore.Hash
}

// filesIn returns the files of all apps in the folder of a workspace.
func (v *Inventory) filesIn(ctx context.Context, folder gitstore.Hash) ([]appFile, error) {
	key := memo.KeyOf("files of a workspace", folder.String())
	if data, ok := v.memory.Get(key); ok {
		if out, ok := decodeFiles(data); ok {
			return out, nil
		}
	}
	apps, err := v.reader.store.Tree(ctx, folder)
	if err != nil {
		return nil, err
	}
	var out []appFile
	for _, app := range apps {
		files, err := v.filesOf(ctx, app.Hash)
		if err != nil {
			return nil, err
		}
		for name, hash := range files {
			out = append(out, appFile{app.Name, name, hash})
		}
	}
	if v.first && v.memory.Puts() {
		v.memory.Put(key, encodeFiles(out))
	}
	return out, nil
}

func encodeFiles(files []appFile) []byte {
	var out []byte
	for _, f := range files {
		out = append(binary.AppendUvarint(out, uint64(len(f.app))), f.app...)
		out = append(binary.AppendUvarint(out, uint64(len(f.name))), f.name...)
		out = append(out, f.hash[:]...)
	}
	return out
}

// decodeFiles decodes what encodeFiles has encoded; false for anything else.
func decodeFiles(data []byte) (out []appFile, ok bool) {
	text := func() string {
		n, size := binary.Uvarint(data)
		if size <= 0 || n > uint64(len(data[size:])) {
			ok = false
			return ""
		}
		s := string(data[size:][:n])
		data = data[size:][n:]
		return s
	}
	for ok = true; ok && len(data) > 0; {
		f := appFile{app: text(), name: text()}
		if ok = ok && len(data) >= len(f.hash); ok {
			data = data[copy(f.hash[:], data):]
			out = append(out, f)
		}
	}
	return out, ok
}
