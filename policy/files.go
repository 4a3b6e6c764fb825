package policy

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
)

// File is a file of a policy.
type File struct {
	Name string
	Data []byte
}

func policyFiles(repository fs.FS, dir string) ([]File, error) {
	var out []File
	var links Problems
	err := fs.WalkDir(repository, dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return unreadable(name, err)
		}
		if d.Type()&fs.ModeSymlink != 0 { // skipping it would silently drop a rule
			links = append(links, Problem{
				File:    name,
				Message: "this is a symbolic link, which is not followed: put the file itself here",
			})
			return nil
		}
		if !d.Type().IsRegular() || !slices.Contains([]string{".rego", ".yaml", ".yml"}, path.Ext(name)) {
			return nil
		}
		if len(out) == maxFiles {
			return Problems{{File: dir, Message: fmt.Sprintf("the folder has more than %d files", maxFiles)}}
		}
		data, err := fs.ReadFile(repository, name)
		if err != nil {
			return unreadable(name, err)
		}
		if len(data) > maxFile {
			return Problems{{File: name, Message: fmt.Sprintf("the file has more than %d bytes", maxFile)}}
		}
		out = append(out, File{name, data})
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil && len(links) > 0 {
		err = links
	}
	return out, err
}

// unreadable returns Problems for a file or folder that no attempt can read, because it is too large or its Git object
// is malformed. Any other error is returned as it is: another attempt may succeed.
func unreadable(name string, err error) error {
	malformed, ok := errors.AsType[interface {
		error
		Malformed() bool
	}](err)
	if errors.Is(err, fs.ErrInvalid) || ok && malformed.Malformed() {
		return Problems{{File: name, Message: fmt.Sprintf("Sluice cannot read it: %v", err)}}
	}
	return err
}
