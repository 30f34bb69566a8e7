"""The files sink: `layout` what is in the output folder, `sink` the driver's side, `folder` the
output as its one writer has it, `commits` its position and fence, `writer` the tasks',
`reader` reading it back, `uri` the sink by its URI.
"""
