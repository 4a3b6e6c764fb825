// Command gitea runs Gitea, built from its module without its build tools. Tests and the demonstration of the bed run
// it (docs/bed.md). Gitea reads its templates, options and public files from STATIC_ROOT_PATH.
package main

import (
	"os"
	"time"

	"code.gitea.io/gitea/cmd"
	"code.gitea.io/gitea/modules/log"
	"code.gitea.io/gitea/modules/setting"

	// the formats of files that Gitea shows
	_ "code.gitea.io/gitea/modules/markup/csv"
	_ "code.gitea.io/gitea/modules/markup/markdown"

	"github.com/urfave/cli/v3"
)

// version is the version of the module code.gitea.io/gitea. The build sets it.
var version = "development"

func main() {
	setting.AppVer, setting.AppStartTime = version, time.Now().UTC()
	cli.OsExiter = func(code int) {
		log.GetManager().Close()
		os.Exit(code)
	}
	err := cmd.RunMainApp(cmd.NewMainApp(cmd.AppVersion{Version: version}), os.Args...)
	log.GetManager().Close()
	if err != nil { // RunMainApp has printed it
		os.Exit(1)
	}
}
