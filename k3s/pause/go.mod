module reconverge.dev/node/pause

go 1.24.0
