// Command containerd is containerd and ctr, its command line, as one binary: they share most of their code. The shim
// cannot be part of it: it would load every plug-in that is linked, and containerd's are not for it.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	_ "github.com/containerd/containerd/cmd/containerd/builtins"
	daemon "github.com/containerd/containerd/cmd/containerd/command"
	client "github.com/containerd/containerd/cmd/ctr/app"
)

func main() {
	app := daemon.App()
	if filepath.Base(os.Args[0]) == "ctr" {
		app = client.New()
	}
	if err := app.Run(os.Args); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", app.Name, err)
		os.Exit(1)
	}
}
