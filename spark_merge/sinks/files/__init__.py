"""The files sink: `layout` what is in the output folder, `sink` the driver's side, `commits` its position and fence, `writer` the tasks',
`reader` reading it back, `uri` the sink by its URI.
"""
