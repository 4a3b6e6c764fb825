package cli

import (
	"context"
	"fmt"

	"github.com/sluice-gitops/sluice/fleet"
)

// ejectWriter writes the files of a plan into the working tree: new ones, and sluice.yaml, which it replaces last.
// Until then the app is imported.
type ejectWriter struct {
	newFiles
	fleet []byte // the new sluice.yaml
}

// free refuses files that exist, and a sluice.yaml that is no file.
func (w *ejectWriter) free() error {
	info, err := w.root.Lstat(fleet.File)
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a regular file, so it cannot be changed (replace it with a file)", fleet.File)
	}
	return w.newFiles.free()
}

func (w *ejectWriter) print(proved string) error {
	w.newFiles.print()
	_, err := fmt.Fprintf(w.out, "--- %s\n%s%s; nothing is written\n", fleet.File, w.fleet, proved)
	return err
}

// write writes the files. If one cannot be written, or Git does not see the tree that was proven, it removes what it
// has created.
func (w *ejectWriter) write(ctx context.Context, proved string) error {
	if err := w.newFiles.write(ctx, func() error { return replaceFile(w.root, fleet.File, w.fleet) }); err != nil {
		return err
	}
	fmt.Fprintf(w.out, "changed %s\n%s\n", fleet.File, proved)
	return nil
}
